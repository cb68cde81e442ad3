#compdef xdpgpu
# SPDX-License-Identifier: MIT

# Names that somebody else has chosen: none that an option parser would take for more than a name is offered.
_xdpgpu_offer() {
  local what=$1
  shift
  local -a names=(${(M)@:#[A-Za-z0-9_][A-Za-z0-9_.@-]#})
  _wanted names expl $what compadd -a names
}

_xdpgpu_present() {
  setopt localoptions extendedglob
  local expl netns=${opt_args[--netns]}
  local -a names
  if [[ -n $netns ]]; then
    names=(${${${${(f)"$(ip -o -n ${(Q)netns} link show 2> /dev/null)"}#*: }%%:*}%%@*})
  else
    names=(/sys/class/net/*/ifindex(N:h:t))
  fi
  _xdpgpu_offer interface $names
}

# Where nothing is attached (or the attached ones cannot be seen), what is present.
_xdpgpu_attached() {
  setopt localoptions extendedglob
  local expl name
  local -a names
  if [[ -z ${opt_args[--netns]} ]]; then
    for name in @RUN@/*.sock(N=:t:r); do
      [[ -e /sys/class/net/$name ]] && names+=($name)
    done
  fi
  if (( $#names )); then _xdpgpu_offer 'attached interface' $names; else _xdpgpu_present; fi
}

_xdpgpu_netns() {
  setopt localoptions extendedglob
  local expl
  _xdpgpu_offer 'network namespace' /run/netns/*(N:t)
}

@COMMANDS@

_xdpgpu "$@"
