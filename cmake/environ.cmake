# The names of the environment variables that mpib reads, from the table of the
# proxy's settings. runtime/base compiles the list.
set(MPIB_ENVIRON_NAMES ${PROJECT_BINARY_DIR}/environ_names.c)
set(settings ${PROJECT_SOURCE_DIR}/proxy/config/settings.c)
set(script ${PROJECT_SOURCE_DIR}/cmake/environ_names.awk)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
	${settings} ${script})
execute_process(COMMAND awk -f ${script} ${settings}
	OUTPUT_VARIABLE list COMMAND_ERROR_IS_FATAL ANY)
file(CONFIGURE OUTPUT ${MPIB_ENVIRON_NAMES} CONTENT "${list}" @ONLY)
