# cmake -DPAGE=dir -DOUT=file -P embed.cmake: index.html with style and scripts
# in their places, so that the page asks for nothing else.
file(READ ${PAGE}/index.html html)
file(READ ${PAGE}/style.css style)
set(script "")
foreach(part model charts heat app)
	file(READ ${PAGE}/${part}.js js)
	string(REPLACE "\"use strict\";\n" "" js "${js}")
	string(APPEND script "${js}")
endforeach()
string(REPLACE "@STYLE@" "${style}" html "${html}")
string(REPLACE "@SCRIPT@" "\"use strict\";\n${script}" html "${html}")
file(WRITE ${OUT} "${html}")
