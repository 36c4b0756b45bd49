# cmake -DPAGE=dir -DOUT=file -P embed.cmake: put style and scripts into
# index.html, so that the browser loads the page with one request.
file(READ ${PAGE}/index.html html)
file(READ ${PAGE}/style.css style)
set(script "")
foreach(part model charts heat tables cluster health app)
	file(READ ${PAGE}/${part}.js js)
	string(REPLACE "\"use strict\";\n" "" js "${js}")
	string(APPEND script "${js}")
endforeach()
string(REPLACE "@STYLE@" "${style}" html "${html}")
string(REPLACE "@SCRIPT@" "\"use strict\";\n${script}" html "${html}")
file(WRITE ${OUT} "${html}")
