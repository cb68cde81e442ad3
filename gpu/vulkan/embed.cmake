# cmake -DINPUT=a.spv -DOUTPUT=a.inc -P embed.cmake: the file's little-endian 32-bit words, as C++ numbers.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," words "${bytes}")
string(REGEX REPLACE "(0x[0-9a-f]+,0x[0-9a-f]+,0x[0-9a-f]+,0x[0-9a-f]+,)" "\\1\n" words "${words}")
file(WRITE ${OUTPUT} "${words}\n")
