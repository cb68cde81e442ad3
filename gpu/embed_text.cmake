# cmake -DOUTPUT=a.inc -DFOLDER=dir "-DNAMES=a/b.h;a/c.h" -P embed_text.cmake: files of a folder as C++ pairs
# of string literals: the name, what stands in the file.
set(text "")
foreach(name IN LISTS NAMES)
  file(READ ${FOLDER}/${name} content)
  string(APPEND text "{\"${name}\", R\"xg(${content})xg\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
