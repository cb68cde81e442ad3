# The unit, with the program where this prefix has it. Given: unit, scratch, program.
get_filename_component(name "${unit}" NAME)
file(READ "${unit}" text)
string(REPLACE "/usr/bin/xdpgpu" "${program}" text "${text}")
file(WRITE "${scratch}/${name}" "${text}")
file(INSTALL "${scratch}/${name}" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
