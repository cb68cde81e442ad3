# Writes OUTPUT, a header that names the commit of the sources in SOURCE, if it says something new.
execute_process(COMMAND git -c safe.directory=* -C ${SOURCE} describe --always --dirty --abbrev=40 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define XDPGPU_COMMIT \"${commit}\"\n")
