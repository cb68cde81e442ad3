# Writes OUTPUT, a header that names the commit of the sources in SOURCE and its trees, if it says something new.
# By the trees (JSON: folder to object id) a figure's sources are known after a rebase, too.
execute_process(COMMAND git -c safe.directory=* -C ${SOURCE} describe --always --dirty --abbrev=40 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
execute_process(COMMAND git -c safe.directory=* -C ${SOURCE} ls-tree HEAD
                        gpu bpf maps userspace/dataplane bench/
                OUTPUT_VARIABLE listed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
string(REGEX MATCHALL "tree [0-9a-f]+\t[^\n]+" listed "${listed}")
set(trees "")
foreach(entry IN LISTS listed)
  string(REGEX REPLACE "tree ([0-9a-f]+)\t(.+)" "\"\\2\": \"\\1\"" entry "${entry}")
  list(APPEND trees "${entry}")
endforeach()
list(FILTER trees EXCLUDE REGEX "bench/results")
list(JOIN trees ", " trees)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define XDPGPU_COMMIT \"${commit}\"
#define XDPGPU_TREES R\"({${trees}})\"
" @ONLY)
