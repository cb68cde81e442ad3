// SPDX-License-Identifier: MIT
#include "tests/netns/product.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

using dataplane::kKernelCounters;

bpf_map_info map_info(int fd) {
  bpf_map_info info{};
  __u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
    throw Error(fmt::format("cannot query a map: {}", std::strerror(errno)));
  return info;
}

template <class T>
T value_at(int fd, std::uint32_t index) {
  T value{};
  if (map_info(fd).value_size != sizeof(T) || bpf_map_lookup_elem(fd, &index, &value) != 0)
    throw Error(fmt::format("cannot read entry {} of a map: {}", index, std::strerror(errno)));
  return value;
}

// Those below the root that are a namespace's, as the product names them.
std::string folder_of(const Namespace& ns) { return fmt::format("netns-{}-{}", ns.inode(), ns.cookie()); }

std::string only_one_below(const std::string& root, const std::string& name) {
  std::vector<std::string> found;
  const auto look = [&](const std::string& path) {
    std::error_code error;
    if (std::filesystem::exists(std::filesystem::symlink_status(path, error))) found.push_back(path);
  };
  look(root + "/" + name);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error))
    if (entry.path().filename().string().starts_with("netns-")) look(entry.path() / name);
  if (found.size() > 1) throw Error(fmt::format("several namespaces have {}", fmt::join(found, " and ")));
  return found.empty() ? root + "/" + name : found.front();
}

// No dots in a BPF filesystem.
std::string pin_name(std::string ifname) {
  std::replace(ifname.begin(), ifname.end(), '.', ':');
  return ifname;
}

}  // namespace

std::string product_path() {
  std::string path;
  if (const char* named = std::getenv("XDPGPU_BIN"); named != nullptr && *named != '\0')
    path = named;
  else
    path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "xdpgpu";
  if (access(path.c_str(), X_OK) != 0)
    throw Error(fmt::format("no xdpgpu program at {}: build it, or name it in XDPGPU_BIN", path));
  return std::filesystem::absolute(path);
}

std::string device_under_test() {
  const char* device = std::getenv("XDPGPU_DEVICE");
  return device != nullptr && *device != '\0' ? device : "cpu";
}

std::filesystem::path source_tree() {
  const char* const captures = std::getenv("XDPGPU_TEST_CAPTURES");
  return captures != nullptr ? std::filesystem::path(captures) / "../../.." : XDPGPU_SOURCE_DIR;
}

// ---- pins ------------------------------------------------------------------------------------------

std::string Pins::directory(const Namespace& ns, const std::string& ifname) {
  return fmt::format("{}/{}/{}", XG_PIN_ROOT, folder_of(ns), pin_name(ifname));
}

std::string Pins::directory(const std::string& ifname) {
  return only_one_below(XG_PIN_ROOT, pin_name(ifname));
}

std::string run_file(const Namespace& ns, const std::string& ifname, const std::string& kind) {
  return fmt::format("{}/{}/{}.{}", XG_RUN_ROOT, folder_of(ns), ifname, kind);
}

std::string run_file(const std::string& ifname, const std::string& kind) {
  return only_one_below(XG_RUN_ROOT, ifname + "." + kind);
}

Pins::Pins(const Namespace& ns, const std::string& ifname) { open(directory(ns, ifname)); }
Pins::Pins(const std::string& ifname) { open(directory(ifname)); }

void Pins::open(const std::string& directory) {
  for (const char* name : {"config", "counters", "worker_counters", "flow_verdicts"}) {
    const std::string path = directory + "/" + name;
    Fd fd(bpf_obj_get(path.c_str()));
    if (!fd) throw Error(fmt::format("no pinned map {}: {}", path, std::strerror(errno)));
    maps_.emplace(name, std::move(fd));
  }
}

Pins::Counts Pins::kernel_counts() const {
  const int fd = maps_.at("counters").get();
  const int cpus = libbpf_num_possible_cpus();
  Counts counts;
  for (std::uint32_t reason = 0; reason < XG_KERNEL_REASON_COUNT; ++reason) {
    std::vector<xg_counter> values(static_cast<std::size_t>(cpus));
    if (bpf_map_lookup_elem(fd, &reason, values.data()) != 0)
      throw Error(
          fmt::format("cannot read the counter {}: {}", kKernelCounters[reason].name, std::strerror(errno)));
    std::uint64_t sum = 0;
    for (const xg_counter& value : values) sum += value.packets;
    counts[kKernelCounters[reason].name] = sum;
  }
  return counts;
}

Pins::Counts Pins::worker_counts(std::uint32_t queue) const {
  const auto counters = value_at<xg_worker_counters>(maps_.at("worker_counters").get(), queue);
  Counts counts;
  for (const auto& counter : dataplane::kWorkerCounters) counts[counter.name] = counters.*counter.value;
  return counts;
}

std::uint64_t Pins::outcomes(const Counts& kernel) {
  std::uint64_t sum = 0;
  for (const auto& counter : kKernelCounters)
    if (counter.outcome != XG_OUTCOME_in) sum += kernel.at(counter.name);
  return sum;
}

std::uint64_t Pins::ends(const Counts& worker) {
  std::uint64_t sum = 0;
  for (const auto& counter : dataplane::kWorkerCounters)
    if (dataplane::is_end(counter.outcome)) sum += worker.at(counter.name);
  return sum - worker.at("lost_in_kernel");
}

Pins::Counts Pins::worker_counts() const {
  Counts sum;
  for (std::uint32_t queue = 0; queue < map_info(maps_.at("worker_counters").get()).max_entries; ++queue)
    for (const auto& [reason, count] : worker_counts(queue)) sum[reason] += count;
  return sum;
}

std::string Pins::summary() const {
  std::string text;
  for (const auto& counts : {kernel_counts(), worker_counts()}) {
    text += text.empty() ? "kernel:" : "; workers:";
    for (const auto& [reason, count] : counts)
      if (count != 0) text += fmt::format(" {} {}", reason, count);
  }
  return text;
}

xg_config Pins::config() const { return value_at<xg_config>(maps_.at("config").get(), 0); }

std::vector<xg_flow_verdict> Pins::flows() const {
  const int fd = maps_.at("flow_verdicts").get();
  const std::uint32_t generation = XG_ACTIVE_GENERATION(config().active);
  std::vector<xg_flow_verdict> result;
  for (std::uint32_t index = 0; index < map_info(fd).max_entries; ++index)
    if (const auto entry = value_at<xg_flow_verdict>(fd, index); entry.generation == generation)
      result.push_back(entry);
  return result;
}

std::optional<xg_flow_verdict> Pins::flow(std::uint16_t src_port, std::uint16_t dst_port) const {
  for (const xg_flow_verdict& entry : flows())
    if (entry.key.src_port == __builtin_bswap16(src_port) &&
        entry.key.dst_port == __builtin_bswap16(dst_port))
      return entry;
  return std::nullopt;
}

// ---- the program -----------------------------------------------------------------------------------

TemporaryFile::TemporaryFile(const std::string& content, const std::string& suffix) {
  std::string path = "/tmp/xdpgpu-netns-XXXXXX" + suffix;
  const int fd = mkstemps(path.data(), static_cast<int>(suffix.size()));
  if (fd < 0) throw Error(fmt::format("cannot make a temporary file: {}", std::strerror(errno)));
  fchmod(fd, 0644);
  close(fd);
  path_ = path;
  write(content);
}

TemporaryFile::~TemporaryFile() { unlink(path_.c_str()); }

void TemporaryFile::write(const std::string& content) const {
  std::ofstream file(path_);
  file << content;
  if (!file.flush()) throw Error(fmt::format("cannot write {}", path_));
}

Outcome product(const Namespace& ns, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{product_path()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_program(ns, std::move(argv));
}

namespace {

// On a crowded host, or an emulated one, a worker that waits for its core longer than the heartbeat allows is
// a failure to the kernel program, and rightly so. Tests that are about something else are more patient; the
// others say how long in their policy.
std::string patient(const std::string& policy) {
  Json json = Json::parse(policy, nullptr, false);
  if (!json.is_object() || (json.contains("io") && json["io"].contains("heartbeat"))) return policy;
  json["io"]["heartbeat"] = "5s";
  return json.dump();
}

// XDPGPU_TEST_PATIENCE: seconds, for hosts on which an attach takes long, as where machine code is made
// first.
unsigned patience_of(const AttachSpec& spec) {
  const char* const said = std::getenv("XDPGPU_TEST_PATIENCE");
  return said == nullptr ? spec.patience_s
                         : std::max(spec.patience_s, static_cast<unsigned>(std::atoi(said)));
}

}  // namespace

Attached::Attached(const Namespace& ns, const AttachSpec& spec)
    : ns_(&ns), interfaces_(spec.interfaces), policy_(patient(spec.policy)) {
  std::vector<std::string> argv{product_path(), "attach"};
  argv.insert(argv.end(), interfaces_.begin(), interfaces_.end());
  if (!spec.policy.empty())
    argv.insert(argv.end(), {"--policy", policy_.path()});
  else if (!spec.policy_file.empty())
    argv.insert(argv.end(), {"--policy", spec.policy_file});
  else
    argv.emplace_back("--pass-all");
  if (!spec.mode_by_policy) argv.insert(argv.end(), {"--mode", spec.generic ? "generic" : "copy"});
  if (!spec.device_by_policy) argv.insert(argv.end(), {"--device", device_under_test()});
  if (spec.queues != 0) argv.insert(argv.end(), {"--queues", std::to_string(spec.queues)});
  argv.insert(argv.end(), {"-o", "json"});
  argv.insert(argv.end(), spec.more.begin(), spec.more.end());
  // Ahead of the test that watches it.
  process_ = std::make_unique<Process>(ns, argv, Process::Options{.nice = -10});
  // A device may compile its kernels first.
  const bool ready = process_->wait_for(
      [](const std::string& out) {
        const auto end = out.find('\n');
        const Json line = end == std::string::npos ? Json() : Json::parse(out.substr(0, end), nullptr, false);
        return line.is_object() && line.value("event", "") == "ready";  // else it says why it ends
      },
      std::chrono::seconds(patience_of(spec)));
  if (!ready) {
    const std::string problem =
        fmt::format("{} did not come to handle traffic (exit status {}): {}{}", fmt::join(argv, " "),
                    process_->wait(0ms), process_->out(), process_->err());
    clean_up();
    throw Error(problem);
  }
  for (const auto& ifname : interfaces_) pins_.push_back(std::make_unique<Pins>(ns, ifname));
}

Attached::~Attached() { clean_up(); }

void Attached::clean_up() noexcept {
  process_.reset();
  for (const auto& ifname : interfaces_) {
    if (access(run_file(*ns_, ifname, "sock").c_str(), F_OK) != 0 &&
        access(Pins::directory(*ns_, ifname).c_str(), F_OK) != 0)
      continue;
    try {
      product(*ns_, {"detach", ifname});
    } catch (const std::exception&) {
      // The test's check for leftovers reports it.
    }
  }
  // What a data plane that died had in hand is kept on purpose, and with it the folder.
  for (const auto& ifname : interfaces_)
    for (int death = 1; death <= 5; ++death)
      unlink(run_file(*ns_, ifname, fmt::format("death-{}.pcap", death)).c_str());
  rmdir(fmt::format("{}/{}", XG_RUN_ROOT, folder_of(*ns_)).c_str());
}

Json Attached::status() const {
  const Outcome outcome = product(*ns_, {"status", interfaces_.front(), "-o", "json"});
  // 3 to 6 say how it is (README.md), beside the report.
  const bool answered = outcome.status == 0 || (outcome.status >= 3 && outcome.status <= 6);
  if (!answered || !Json::accept(outcome.out))
    throw Error(fmt::format("status failed ({}): {}{}", outcome.status, outcome.out, outcome.err));
  return Json::parse(outcome.out);
}

Outcome Attached::apply(const std::string& policy) const {
  const TemporaryFile file(policy);
  return product(*ns_, {"policy", "apply", interfaces_.front(), file.path()});
}

Outcome Attached::detach() {
  Outcome outcome = product(*ns_, {"detach", interfaces_.front()});
  if (outcome.status == 0) outcome.status = process_->wait(10s);
  process_->wait_for_end_of_output(2s);
  outcome.out += process_->out();
  outcome.err += process_->err();
  return outcome;
}

void Attached::kill_outright() {
  const auto everybody = descendants(process_->pid());
  process_->signal(SIGKILL);
  for (const pid_t pid : everybody) kill(pid, SIGKILL);
  // A driver may take its time to let go of a GPU.
  process_->wait(30s);
  process_->wait_for_end_of_output(30s);
}

Json Attached::ready() const {
  const std::string out = process_->out();
  return Json::parse(out.substr(0, out.find('\n')));
}

namespace {
std::string name_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  std::getline(file, name);
  return name;
}
constexpr const char *kCompiler = "xdpgpu-compiler", *kProgramCompiler = "xdpgpu-programs";
}  // namespace

std::vector<pid_t> but_for_the_compiler(pid_t broker) {
  auto children = descendants(broker);
  std::erase_if(children, [](pid_t child) {
    const std::string name = name_of(child);
    return name == kCompiler || name == kProgramCompiler;
  });
  return children;
}

pid_t compiler_of(pid_t broker) {
  for (const pid_t child : descendants(broker))
    if (name_of(child) == kCompiler) return child;
  return -1;
}

pid_t Attached::data_plane() const {
  const auto children = but_for_the_compiler(process_->pid());
  if (children.size() != 1)
    throw Error(fmt::format("expected one data-plane process under attach, found {}", children.size()));
  return children.front();
}

std::vector<std::string> leftovers(const Namespace& ns, const std::vector<std::string>& links) {
  std::vector<std::string> found;
  // Where the drivers are, each namespace has these from its beginning on.
  constexpr std::array<std::string_view, 3> kFallbackTunnels{"tunl0", "sit0", "ip6tnl0"};
  for (const auto& name : link_names(ns))
    if (std::find(links.begin(), links.end(), name) == links.end() &&
        std::find(kFallbackTunnels.begin(), kFallbackTunnels.end(), name) == kFallbackTunnels.end())
      found.push_back("link " + name);
  for (const auto& name : links) {
    const XdpState xdp = xdp_state(Interface(ns, name));
    if (xdp.mode != XdpAttach::none)
      found.push_back(fmt::format("XDP program {} on {}", xdp.program_name, name));
    if (const auto programs = tcx_egress_programs(Interface(ns, name)); programs != 0)
      found.push_back(fmt::format("{} tc egress programs on {}", programs, name));
    const std::string pins = Pins::directory(ns, name), socket = run_file(ns, name, "sock");
    if (access(pins.c_str(), F_OK) == 0) found.push_back("pins " + pins);
    if (access(socket.c_str(), F_OK) == 0) found.push_back("socket " + socket);
  }
  // A namespace's folders go with what was in them.
  for (const char* root : {XG_PIN_ROOT, XG_RUN_ROOT})
    if (const std::string folder = fmt::format("{}/{}", root, folder_of(ns));
        access(folder.c_str(), F_OK) == 0)
      found.push_back("folder " + folder);
  for (const auto& qdisc : qdiscs(ns)) found.push_back("qdisc " + qdisc);
  for (const auto& process : processes_in(ns)) found.push_back("process " + process);
  return found;
}

}  // namespace xdpgpu::lab
