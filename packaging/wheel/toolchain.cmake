# Programs for any Linux with the glibc of $PPC_WHEEL_GLIBC or a newer one: zig's compiler, its C++ library linked
# statically, and the libraries of $PPC_WHEEL_ROOT, which are static too.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER $ENV{PPC_WHEEL_TOOLS}/cc)
set(CMAKE_CXX_COMPILER $ENV{PPC_WHEEL_TOOLS}/c++)
set(root $ENV{PPC_WHEEL_ROOT})
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/x86_64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
include_directories(SYSTEM ${root}/usr/include ${root}/usr/include/x86_64-linux-gnu)
# bpftool's skeleton has C's name of it, which clang knows in C++ with extensions alone.
set(CMAKE_CXX_FLAGS_INIT -D_Bool=bool)
# Debian's archives are made for programs: in a library their symbols must not be another's.
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s -Wl,-Bsymbolic")
set(CMAKE_EXE_LINKER_FLAGS_INIT -s)
# What libbpf's own archive asks for.
set(CMAKE_CXX_STANDARD_LIBRARIES "-L${root}/usr/lib/x86_64-linux-gnu -lelf -lz")
