# tests/tally.awk: what GoogleTest printed, as one line a test case: OUTCOME <tab> NAME <tab> REASON,
# OUTCOME being passed, failed or skipped. Runs on any awk, busybox's included.
#
#   binary > log 2>&1; awk -v program=NAME -v status=$? -f tests/tally.awk log
#
# A program that ended in the middle of a case, or badly without naming a failed case, or before it ran
# any, is a failed case of its own: nothing that went wrong is left out of the count.

function emit(outcome, name, reason) {
  gsub(/\t/, " ", reason)
  print outcome "\t" program ": " name "\t" reason
  count[outcome]++
}

# The case's name in a line such as "[       OK ] Suite.Case (3 ms)"; what a test printed without a
# newline may stand in front.
function case_name(line, mark) {
  line = substr(line, index(line, mark) + length(mark))
  sub(/[ ,].*$/, "", line)
  return line
}

index($0, "[ RUN      ] ") {
  running = case_name($0, "[ RUN      ] ")
  reason = ""
  take = taken = 0
  next
}
running != "" && index($0, "[       OK ] " running) { emit("passed", running, ""); running = ""; next }
running != "" && index($0, "[  FAILED  ] " running) {
  emit("failed", running, reason == "" ? "see the log" : reason)
  running = ""
  next
}
running != "" && index($0, "[  SKIPPED ] " running) {
  emit("skipped", running, reason == "" ? "no reason given" : reason)
  running = ""
  next
}
# "file:line: Skipped" and "file:line: Failure" stand on lines of their own; the text follows.
/: (Skipped|Failure)$/ && reason == "" { take = 1; next }
take && /^Google Test trace:/ { take = taken = 0 }  # where it was, not why
take && $0 != "" { reason = (reason == "" ? "" : reason " ") $0; if (++taken == 3) { take = taken = 0 } }
take && $0 == "" { take = taken = 0 }
/^\[==========\] [0-9]+ tests? from .* ran\./ { ended = 1 }

END {
  how = status > 128 ? "was ended by signal " status - 128 : "exited with status " status
  if (status == 124 || status == 137) how = "ran out of time"
  if (running != "") emit("failed", running, program " " how " in the middle of it")
  else if (status != 0 && !count["failed"]) emit("failed", "the program itself", program " " how)
  else if (!ended) emit("failed", "the program itself", program " did not finish its tests")
}
