# The units, with the program where this prefix has it. Given: folder, scratch, program.
foreach(name IN ITEMS xdpgpu@.service xdpgpu-metrics.service xdpgpu.target)
  file(READ "${folder}/${name}" text)
  string(REPLACE "/usr/bin/xdpgpu" "${program}" text "${text}")
  file(WRITE "${scratch}/${name}" "${text}")
  file(INSTALL "${scratch}/${name}" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
endforeach()
