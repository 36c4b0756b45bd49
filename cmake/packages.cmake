find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(ck REQUIRED IMPORTED_TARGET ck>=0.7)
# Without liburing 2.3, as on Ubuntu 22.04, the software HCA uses epoll.
if(MPIB_URING)
	pkg_check_modules(liburing IMPORTED_TARGET liburing>=2.3)
endif()
pkg_check_modules(libibverbs REQUIRED IMPORTED_TARGET libibverbs)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc>=2.4)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson>=2.13)
pkg_check_modules(libseccomp REQUIRED IMPORTED_TARGET libseccomp>=2.5)
pkg_check_modules(libsodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(libxxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ncursesw REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules(libmicrohttpd REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.71)
pkg_check_modules(libsystemd IMPORTED_TARGET libsystemd)
if(BUILD_TESTING)
	pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka>=1.1.5)
endif()

# Only the GPU tests and benchmarks need the toolkit.
find_package(CUDAToolkit QUIET)
