# Every target links mpib_flags PRIVATE; nothing sets global flags.
add_library(mpib_flags INTERFACE)
target_compile_definitions(mpib_flags INTERFACE _GNU_SOURCE)
target_compile_options(mpib_flags INTERFACE
	-Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wcast-qual -Wundef
	-Wwrite-strings
	$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
	$<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
	$<$<COMPILE_LANGUAGE:C>:-Wold-style-definition>)
if(MPIB_WERROR)
	target_compile_options(mpib_flags INTERFACE -Werror)
endif()

# Harden all programs (SECURITY.md), so that tests and benchmarks run the same
# code as an installation. Sanitizer builds have their own checks.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported()
function(mpib_harden)
	# Use shadow stacks only: branch tracking would cost an instruction per
	# function, and Linux does not support it in user space.
	foreach(flag -fstack-clash-protection -fcf-protection=return)
		string(MAKE_C_IDENTIFIER "MPIB_HAS${flag}" known)
		check_c_compiler_flag(${flag} ${known})
		if(${known})
			target_compile_options(mpib_flags INTERFACE ${flag})
		endif()
	endforeach()
	# Code on the hot path gets the weaker -fstack-protector, which guards
	# only functions with buffers. -strong also guards functions that take
	# the address of a local, which costs 2 % more instructions there.
	target_compile_options(mpib_flags INTERFACE
		-fstack-protector$<$<NOT:$<BOOL:$<TARGET_PROPERTY:MPIB_HOT>>>:-strong>)
	# Do not let the hot path gather neighbouring fields in a vector
	# register to store them at once. Most of the fields are in registers
	# already, and registers are scarce.
	target_compile_options(mpib_flags INTERFACE
		$<$<BOOL:$<TARGET_PROPERTY:MPIB_HOT>>:-fno-tree-slp-vectorize>)
	# Keep the level that a packager sets in CFLAGS. Without -O, fortify
	# does nothing.
	if(NOT "${CMAKE_C_FLAGS}" MATCHES _FORTIFY_SOURCE)
		target_compile_options(mpib_flags INTERFACE
			$<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
	endif()
	# Resolve all symbols at start and make the tables read-only.
	target_link_options(mpib_flags INTERFACE LINKER:-z,relro,-z,now)
endfunction()

# Use a plain if(): a generator expression would split "address,undefined".
if(MPIB_SANITIZE)
	target_compile_options(mpib_flags INTERFACE
		-fsanitize=${MPIB_SANITIZE} -fno-omit-frame-pointer
		-fno-sanitize-recover=all
		# This warning is often wrong at -O1. The plain build keeps it.
		$<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
	target_link_options(mpib_flags INTERFACE
		-fsanitize=${MPIB_SANITIZE})
else()
	mpib_harden()
endif()

# Instrument everything for libFuzzer; only the fuzz targets get its main().
if(MPIB_FUZZ)
	target_compile_options(mpib_flags INTERFACE -fsanitize=fuzzer-no-link)
	target_link_options(mpib_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# cmake --build build --target format: format all sources by .clang-format.
find_program(CLANG_FORMAT clang-format)
if(CLANG_FORMAT)
	add_custom_target(format
		COMMAND git ls-files -z -- *.c *.h *.cc *.hpp |
			xargs -0 -n 40 ${CLANG_FORMAT} -i
		WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
		VERBATIM)
endif()
