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

# What is installed is hardened (SECURITY.md), and so is what is tested and
# measured. A sanitizer brings checks of its own.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported()
function(mpib_harden)
	# Shadow stacks alone: branch tracking would cost an instruction a
	# function, and no Linux has it for programs.
	foreach(flag -fstack-clash-protection -fcf-protection=return)
		string(MAKE_C_IDENTIFIER "MPIB_HAS${flag}" known)
		check_c_compiler_flag(${flag} ${known})
		if(${known})
			target_compile_options(mpib_flags INTERFACE ${flag})
		endif()
	endforeach()
	# What works for each message guards its buffers, and not each local
	# that it takes the address of: that is 2 % of its instructions.
	target_compile_options(mpib_flags INTERFACE
		-fstack-protector$<$<NOT:$<BOOL:$<TARGET_PROPERTY:MPIB_HOT>>>:-strong>)
	# Nor are neighbouring fields gathered in a vector register to be stored as
	# one: most of them are in registers already, of which there are too few.
	target_compile_options(mpib_flags INTERFACE
		$<$<BOOL:$<TARGET_PROPERTY:MPIB_HOT>>:-fno-tree-slp-vectorize>)
	# Who packages it may ask for more. Without -O there is none.
	if(NOT "${CMAKE_C_FLAGS}" MATCHES _FORTIFY_SOURCE)
		target_compile_options(mpib_flags INTERFACE
			$<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
	endif()
	# What was resolved at start cannot be pointed elsewhere later.
	target_link_options(mpib_flags INTERFACE LINKER:-z,relro,-z,now)
endfunction()

# A plain if(): a generator expression would split "address,undefined".
if(MPIB_SANITIZE)
	target_compile_options(mpib_flags INTERFACE
		-fsanitize=${MPIB_SANITIZE} -fno-omit-frame-pointer
		-fno-sanitize-recover=all
		# At -O1 it is often wrong; the plain build has it.
		$<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
	target_link_options(mpib_flags INTERFACE
		-fsanitize=${MPIB_SANITIZE})
else()
	mpib_harden()
endif()

# Coverage for libFuzzer in everything; its main() only in the targets.
if(MPIB_FUZZ)
	target_compile_options(mpib_flags INTERFACE -fsanitize=fuzzer-no-link)
	target_link_options(mpib_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# cmake --build build --target format: all sources in the form of .clang-format.
find_program(CLANG_FORMAT clang-format)
if(CLANG_FORMAT)
	add_custom_target(format
		COMMAND git ls-files -z -- *.c *.h *.cc *.hpp |
			xargs -0 -n 40 ${CLANG_FORMAT} -i
		WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
		VERBATIM)
endif()
