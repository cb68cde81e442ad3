# bash completion for xdpgpu                                               -*- shell-script -*-
# SPDX-License-Identifier: MIT

# What there is behind a command: its commands; its options; those that take a value, with what it can be; and
# its arguments in order, likewise. "+": several of them.
_xdpgpu_command() {
  case $1 in
@COMMANDS@
    *) return 1 ;;
  esac
}

# Those of the words that go on as $cur does. Names that somebody else has chosen come here, too: none that a shell
# or an option parser would take for more than a name is offered.
_xdpgpu_offer() {
  local word
  for word; do
    [[ $word =~ ^[A-Za-z0-9_][A-Za-z0-9_.@-]*$ && $word == "$cur"* ]] && COMPREPLY+=("$prefix$word")
  done
}

_xdpgpu_present() {
  local entry names=()
  if [[ $netns ]]; then
    while read -r _ entry _; do
      entry=${entry%:}
      names+=("${entry%%@*}")
    done < <(ip -o -n "$netns" link show 2> /dev/null)
  else
    for entry in /sys/class/net/*; do
      [[ -e $entry/ifindex ]] && names+=("${entry##*/}")
    done
  fi
  _xdpgpu_offer "${names[@]}"
}

# Where nothing is attached (or the attached ones cannot be seen), what is present.
_xdpgpu_attached() {
  local entry names=()
  if [[ ! $netns ]]; then
    for entry in @RUN@/*.sock; do
      [[ -S $entry ]] || continue
      entry=${entry##*/}
      [[ -e /sys/class/net/${entry%.sock} ]] && names+=("${entry%.sock}")
    done
  fi
  if ((${#names[@]} > 0)); then _xdpgpu_offer "${names[@]}"; else _xdpgpu_present; fi
}

# kind_of OPTION: sets kind to what the option takes; empty: nothing.
_xdpgpu_kind_of() {
  local one
  kind=
  for one in $values; do
    [[ ${one%%:*} == "$1" ]] && kind=${one#*:}
  done
}

_xdpgpu_offer_kind() {
  local entry names=()
  case $1 in
    *'|'*)
      local IFS='|'
      # shellcheck disable=SC2086  # words
      _xdpgpu_offer $1
      ;;
    present) _xdpgpu_present ;;
    attached) _xdpgpu_attached ;;
    file) compopt -o default ;; # readline's own, which knows of quotes and ~
    netns)
      for entry in /run/netns/*; do names+=("${entry##*/}"); done
      _xdpgpu_offer "${names[@]}"
      ;;
    group)
      mapfile -t names < <(compgen -g)
      _xdpgpu_offer "${names[@]}"
      ;;
  esac
}

_xdpgpu() {
  local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} prefix='' path='' word option='' kind='' bare='' netns='' place=0 i
  local commands options values arguments
  COMPREPLY=()
  _xdpgpu_command ''
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $option && ! ($kind == *+ && $word == -*) ]]; then
      [[ $word == = ]] && continue # of --option=value
      [[ $option == --netns ]] && netns=$word
      [[ $kind == *+ ]] || option=''
      continue
    fi
    option=''
    case $bare$word in
      --) bare=1 ;;
      -*)
        _xdpgpu_kind_of "${word%%=*}"
        if [[ $kind && $word != *=* ]]; then
          option=$word
        elif [[ $word == --netns=* ]]; then
          netns=${word#*=}
        fi
        ;;
      *)
        if [[ $commands ]]; then
          path=${path:+$path }$word
          _xdpgpu_command "$path" || return 0
        else
          place=$((place + 1))
        fi
        ;;
    esac
  done
  # Where "=" breaks no words.
  if [[ ! $option && ! $bare && $cur == --*=* ]]; then
    option=${cur%%=*} prefix=${cur%%=*}= cur=${cur#*=}
    _xdpgpu_kind_of "$option"
  fi
  if [[ $option && ! ($kind == *+ && $cur == -*) ]]; then
    [[ $cur == = ]] && cur=''
    _xdpgpu_offer_kind "${kind%+}"
    # Behind several values there may also be an argument.
    [[ $kind == *+ && ! $prefix ]] || return 0
  fi
  if [[ $cur == -* && ! $bare ]]; then
    for word in $options; do
      [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
  elif [[ $commands ]]; then
    # shellcheck disable=SC2086  # words
    _xdpgpu_offer $commands
  else
    # shellcheck disable=SC2206  # words
    local kinds=($arguments)
    kind=
    if ((place < ${#kinds[@]})); then
      kind=${kinds[place]%+}
    elif ((${#kinds[@]} > 0)) && [[ ${kinds[-1]} == *+ ]]; then
      kind=${kinds[-1]%+}
    fi
    _xdpgpu_offer_kind "$kind"
  fi
}

complete -F _xdpgpu xdpgpu
