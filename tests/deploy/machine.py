"""A machine for tests of packages: systemd as process 1 of its own namespaces, with a root filesystem, network and
control group of its own. The root is a bare Debian 12, made by mmdebstrap and kept in ~/.cache/xdpgpu-package, or, with
CI=true or where that cannot be had, what this host has under an overlay. Wants root."""
import ctypes
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

BOOT = r"""
set -e
root=$1
mount --make-rprivate /
if [ -n "$2" ]; then mount -t overlay overlay -o "lowerdir=/,upperdir=$2/upper,workdir=$2/work" "$root"
else mount --bind "$root" "$root"; fi
rm -f "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mkdir -p "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t bpf bpf "$root/sys/fs/bpf"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/dev"
for node in null zero full random urandom tty; do touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
mkdir "$root/dev/shm" "$root/dev/pts"
rm -rf "$root/etc/systemd/system/xdpgpu"*
printf '[Unit]\nDescription=laboratory\nAllowIsolate=yes\n' > "$root/etc/systemd/system/lab.target"
cd "$root"
# Units with namespaces of their own want a root that is one.
pivot_root . mnt
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . sh -c 'umount -l /mnt &&
  exec /lib/systemd/systemd --unit=lab.target --show-status=no --log-target=null'
"""


class Skip(Exception):
    """What this host lacks, in a sentence."""


class Failed(Exception):
    """A command's or the machine's."""


def sh(*command, check=True, timeout=120):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{' '.join(map(str, command))} has not ended within {timeout} s") from late
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ends with {done.returncode}: {done.stdout}{done.stderr}")
    return done


def bare_root(packages):
    """An archive of Debian 12 with these packages; None, and why, where it cannot be had."""
    if os.environ.get("CI"):
        return None, "CI makes no bare Debian"
    if not shutil.which("mmdebstrap"):
        return None, "mmdebstrap is not installed (deploy/install-deps --tests)"
    name = hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:16]
    folder = pathlib.Path.home() / ".cache" / "xdpgpu-package"
    archive = folder / f"bookworm-{name}.tar"
    month = 30 * 86400
    if archive.exists() and time.time() - archive.stat().st_mtime < month:
        return archive, ""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"part-{os.getpid()}.tar"
    try:
        sh("mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", "bookworm", part, timeout=900)
        part.rename(archive)
    except Failed as why:
        return None, f"mmdebstrap cannot make one: {str(why)[-200:]}"
    finally:
        part.unlink(missing_ok=True)
    return archive, ""


def control_groups():
    """Where this host has the second version of control groups, for writing."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup2" and "rw" in options.split(","):
            return pathlib.Path(where)
    raise Skip("there is no cgroup2 here that can be written to")


class Machine:
    def __init__(self, work, packages):
        self.work = pathlib.Path(work)
        self.root = self.work / "root"
        self.root.mkdir()
        self.process = self.pid = None
        self.group = control_groups() / f"xdpgpu-lab-{os.getpid()}"
        archive, why = bare_root(packages)
        overlay = ""
        if archive:
            sh("tar", "-C", self.root, "-xf", archive)
            self.about = "a bare Debian 12"
        else:
            self.about = f"this host's root under an overlay: {why}"
            if not pathlib.Path("/lib/systemd/systemd").exists() or not shutil.which("dpkg"):
                raise Skip(f"this host has no systemd or no dpkg, and {why}")
            overlay = str(self.work / "overlay")
            pathlib.Path(overlay).mkdir()
            sh("mount", "-t", "tmpfs", "tmpfs", overlay)
            for name in ("upper", "work"):
                (pathlib.Path(overlay) / name).mkdir()
        self.overlay = overlay
        self.group.mkdir()
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child", "bash", "-c", BOOT,
             "boot", str(self.root), overlay],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(self.work / "boot").open("w"), start_new_session=True,
            preexec_fn=lambda: (self.group / "cgroup.procs").write_text(str(os.getpid())))
        for _ in range(300):
            children = sh("pgrep", "-P", str(self.process.pid), check=False).stdout.split()
            if self.process.poll() is not None:
                break
            self.pid = int(children[0]) if children else None
            if self.pid and "systemd" in pathlib.Path(f"/proc/{self.pid}/comm").read_text():
                if self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"):
                    return
            time.sleep(0.1)
        why = (self.work / "boot").read_text()
        self.end()
        raise Skip(f"systemd does not start as process 1 of a namespace here: {why[-300:]}")

    def run(self, *command, check=True, timeout=120):
        """In the machine, as root."""
        return sh("nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--root", "--wd=/",
                  "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", *command, check=check,
                  timeout=timeout)

    def show(self, unit, name):
        return self.run("systemctl", "show", "--value", "-p", name, unit).stdout.strip()

    def path(self, name):
        """A file of the machine, as this process sees it."""
        return pathlib.Path(f"/proc/{self.pid}/root{name}")

    def end(self):
        if self.process and self.process.poll() is None:
            for pid in (self.pid, self.process.pid):
                if pid:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            self.process.wait()
        for _ in range(50):  # the kernel lets go of it a moment later
            folders = sorted(self.group.rglob("*/"), key=lambda folder: -len(str(folder))) + [self.group] if self.group.exists() else []
            try:
                for folder in folders:
                    if folder.is_dir():
                        folder.rmdir()
                break
            except OSError:
                time.sleep(0.1)
        if self.overlay:
            sh("umount", self.overlay, check=False)
            self.overlay = ""


def enter_network(pid):
    """This thread is in the network namespace of that process from here on."""
    with open(f"/proc/{pid}/ns/net", encoding="ascii") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), "setns")
