#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What we declare of CUDA's driver, compared with <cuda.h>, where there is one: a function with a
# size of 32 bits in it links and runs as well as the right one.
. "$(dirname "$0")/../lib/tap.sh"

if [ "${cuda_headers:-no}" = no ]; then
  skip "our declarations are those of <cuda.h>" "there is no <cuda.h>: --with-cuda-headers=DIR"
  done_testing
  exit
fi
flags="-Wall -Wextra -Werror -fsyntax-only -isystem $cuda_headers
  $(echo "$T_CFLAGS" | sed 's/-I/-isystem /g')
  -I$top_srcdir/include -I$top_builddir/include -I$top_srcdir/lib/cuda"

printf '#include <tarn/cuda.h>\n#include <cuda.h>\nint main (void) { return 0; }\n' \
  >"$scratch/before.c"
printf '#include <cuda.h>\n#include <tarn/cuda.h>\nint main (void) { return 0; }\n' \
  >"$scratch/after.c"
for order in before after; do
  cp "$scratch/$order.c" "$scratch/$order.cc"
  check "<tarn/cuda.h> $order <cuda.h>, C11" $CC -std=c11 $flags "$scratch/$order.c"
  if $CXX --version >/dev/null 2>&1; then
    check "<tarn/cuda.h> $order <cuda.h>, C++17" $CXX -std=c++17 $flags "$scratch/$order.cc"
  else
    skip "<tarn/cuda.h> $order <cuda.h>, C++17" "no C++ compiler"
  fi
done

# Functions and numbers, of the library, the examples and the tests, which all have their own.
header=$cuda_headers/cuda.h
version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$header")

# A comparison, unless the header is older than the name: none from 12.9 on may lack one.
known () { # NAME COMPARISON
  if [ "$version" -ge 12090 ] || grep -qw "$1" "$header"; then
    echo "$2"
  else
    echo "OLDER ($1)"
  fi
}

# The functions of macros that have a row X (name, symbol, arguments) for each; the symbol may be a
# string.
rows () { # FILE
  {
    echo '#define FAKE_CUDA_IF_10_2(row) row'
    echo '#define FAKE_CUDA_IF_11_0(row) row'
    echo '#define FAKE_CUDA_IF_11_2(row) row'
    echo '#define FAKE_CUDA_IF_11_4(row) row'
    echo '#define FAKE_CUDA_IF_12_0(row) row'
    echo '#define FAKE_CUDA_IF_12_5(row) row'
    echo '#define ROW(name, symbol, arguments) @symbol|arguments'
    sed -n '/^#define [A-Z_]*([XF]).*\\$/,/[^\\]$/p' "$1" | sed 's/"\(cu[A-Za-z0-9_]*\)"/\1/'
    sed -n 's/^#define \([A-Z_]*\)([XF]).*\\$/\1 (ROW)/p' "$1"
  } >"$scratch/rows.c"
  { $CC -E -P "$scratch/rows.c" | tr '\n@' ' \n'; echo; } \
    | while IFS='|' read -r symbol arguments; do
      [ -z "${symbol# }" ] || known "$symbol" "SAME ($symbol, $arguments)"
    done
}

count_rows () { # FILE
  grep -c '^  \(FAKE_CUDA_IF_[0-9_]* (\)*[XF] (cu' "$1"
}

# Numbers beside their names in CUDA; the sed script makes "NUMBER NAME" of each line that has them.
numbers () { # FILE SCRIPT
  sed -n "$2" "$1" | while read -r number name; do
    known "$name" "EQUAL ($number, $name)"
  done
}

# A field's place and size.
field () { # TYPE FIELD, TYPE FIELD in <cuda.h>
  echo "EQUAL (offsetof ($1, $2), offsetof ($3, $4))"
  echo "EQUAL (sizeof ((($1 *) 0)->$2), sizeof ((($3 *) 0)->$4))"
}

# The versions of the functions themselves: without that, its macros give cuCtxCreate the name of
# whichever is the newest.
cat >"$scratch/start.c" <<'CODE'
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include "driver-private.h"
#define SAME(symbol, arguments)                                                                    \
  _Static_assert (__builtin_types_compatible_p (__typeof__ (&symbol), unsigned int (*) arguments), \
                  #symbol " is declared otherwise");
#define EQUAL(ours, theirs) _Static_assert ((int) ours == (int) theirs, #ours " is not " #theirs);
#define OLDER(name)
CODE

# What is compared is in a file of its own, and there must be so much of it.
is_same () { # LEAST TYPES
  n=$(grep -c '^SAME (\|^EQUAL (\|^OLDER (' "$scratch/rows")
  { cat "$scratch/start.c"; echo "$2"; cat "$scratch/rows"; } >"$scratch/compare.c"
  [ "$n" -ge "$1" ] || { echo "$n are found of $1"; return 1; }
  $CC -std=gnu11 $flags "$scratch/compare.c"
}

compare () { # DESCRIPTION LEAST [TYPES]
  check "$1" is_same "$2" "${3:-}"
}

cat >"$scratch/rows" <<'CODE'
EQUAL (TARN_CUDA_SUCCESS, CUDA_SUCCESS)
EQUAL (TARN_CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE)
EQUAL (TARN_CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
EQUAL (TARN_CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED)
EQUAL (TARN_CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED)
EQUAL (TARN_CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE)
EQUAL (TARN_CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT)
EQUAL (TARN_CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED)
EQUAL (TARN_CUDA_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL)
EQUAL (TARN_CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED)
EQUAL (TARN_CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED)
EQUAL (TARN_CUDA_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED)
EQUAL (TARN_CUDA_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE)
EQUAL (TARN_CUDA_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
EQUAL (TARN_CUDA_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
EQUAL (TARN_CUDA_MEM_ALLOC_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM)
EQUAL (TARN_CUDA_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
       CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
EQUAL (TARN_CUDA_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
       CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
EQUAL (TARN_CUDA_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
       CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
EQUAL (TARN_CUDA_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
       CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)
EQUAL (TARN_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING)
CODE
compare "the library's constants" 21
rows "$top_srcdir/lib/cuda/driver-private.h" >"$scratch/rows"
compare "the library's functions" "$(count_rows "$top_srcdir/lib/cuda/driver-private.h")"

# Structs whose fields have names of our own.
{
  echo 'EQUAL (sizeof (TarnCudaOwnProperties), sizeof (CUmemAllocationProp))'
  while read -r ours theirs; do
    field TarnCudaOwnProperties "$ours" CUmemAllocationProp "$theirs"
  done <<'FIELDS'
type type
handle_types requestedHandleTypes
location.type location.type
location.id location.id
windows win32HandleMetaData
compression allocFlags.compressionType
rdma allocFlags.gpuDirectRDMACapable
usage allocFlags.usage
reserved allocFlags.reserved
FIELDS
  echo 'EQUAL (sizeof (TarnCudaOwnAccess), sizeof (CUmemAccessDesc))'
  field TarnCudaOwnAccess location CUmemAccessDesc location
  field TarnCudaOwnAccess flags CUmemAccessDesc flags
} >"$scratch/rows"
compare "the library's structs" 24

# The comparison itself sees a difference.
sees_difference () {
  { cat "$scratch/start.c"; echo "$1"; } >"$scratch/wrong.c"
  ! $CC -std=gnu11 $flags "$scratch/wrong.c" 2>"$scratch/why" && grep -q "$2" "$scratch/why"
}
check "... and a wrong one is seen" sees_difference \
  'SAME (cuMemAlloc_v2, (CUdeviceptr *, unsigned int))' 'cuMemAlloc_v2.* is declared otherwise'
check "... and a wrong number" sees_difference \
  'EQUAL (3, CU_FUNC_ATTRIBUTE_NUM_REGS)' '3.* is not .*CU_FUNC_ATTRIBUTE_NUM_REGS'

numbers "$top_srcdir/lib/cuda/device-data.c" \
  's/^  \[[A-Z_]*\] = { *\([0-9]*\), *"\([A-Z0-9_]*\)".*/\1 CU_DEVICE_ATTRIBUTE_\2/p' \
  >"$scratch/rows"
compare "attributes of devices" \
  "$(grep -c '^  \[[A-Z_]*\] = {' "$top_srcdir/lib/cuda/device-data.c")"
numbers "$top_srcdir/lib/cuda/occupancy-driver.c" \
  '/^typedef enum/,/^}/s/^  \([A-Z0-9_]*\) = \([0-9]*\),*$/\2 CU_FUNC_ATTRIBUTE_\1/p' \
  >"$scratch/rows"
compare "attributes of functions" \
  "$(sed -n '/^typedef enum/,/^} FunctionAttribute/p' "$top_srcdir/lib/cuda/occupancy-driver.c" \
    | grep -c '^  [A-Z]')"

# Programs that call the driver themselves.
constants='
  s/^#define \(JIT_[A-Z_]*\) \([0-9]*\).*/\2 CU_\1/p
  s/^#define MEMPOOL_\([A-Z_]*\) \([0-9]*\).*/\2 CU_MEMPOOL_ATTR_\1/p
  s/^#define \(HANDLE_TYPE_[A-Z_]*\|ACCESS_FLAGS_[A-Z_]*\|LOCATION_TYPE_[A-Z_]*\) \([0-9]*\).*/\2 CU_MEM_\1/p
  s/^#define \(NOT_SUPPORTED\) \([0-9]*\).*/\2 CUDA_ERROR_\1/p
  s/^#define \([A-Z_]*SHARED_SIZE_BYTES\|NUM_REGS\) \([0-9]*\).*/\2 CU_FUNC_ATTRIBUTE_\1/p'
programs=$(cd "$top_srcdir" && grep -l '^  X (cu[A-Za-z]*, "cu' doc/examples/*.c t/cuda/*.c)
check "programs with functions of their own" test "$(echo "$programs" | wc -l)" -ge 3
for program in $programs; do
  { rows "$top_srcdir/$program"; numbers "$top_srcdir/$program" "$constants"; } >"$scratch/rows"
  compare "$program" $(($(count_rows "$top_srcdir/$program") + 2)) \
    "$(grep '^typedef struct CU[A-Za-z]*_st \*' "$top_srcdir/$program")"
done

# The fake driver, which is no better than what it says of itself.  A UUID is 16 bytes to it.
fake=$top_srcdir/lib/testing/cuda
rows "$fake/fake-cuda.h" | sed 's/char \*uuid/CUuuid *uuid/' >"$scratch/rows"
compare "the fake driver's functions" "$(count_rows "$fake/fake-cuda.h")"
for name in type requestedHandleTypes location win32HandleMetaData allocFlags \
  allocFlags.compressionType allocFlags.gpuDirectRDMACapable allocFlags.usage; do
  field FakeMemAllocationProp $name CUmemAllocationProp $name
done >"$scratch/rows"
for name in allocType handleTypes location win32SecurityAttributes maxSize usage reserved; do
  field FakeMemPoolProps $name CUmemPoolProps $name
done >>"$scratch/rows"
for name in location location.type location.id flags; do
  field FakeMemAccessDesc $name CUmemAccessDesc $name
done >>"$scratch/rows"
echo 'EQUAL (sizeof (FakeMemAllocationProp), sizeof (CUmemAllocationProp))' >>"$scratch/rows"
echo 'EQUAL (sizeof (FakeMemPoolProps), sizeof (CUmemPoolProps))' >>"$scratch/rows"
compare "... its structs" 40 "$(sed -n '/^typedef .* CUmemGenericAllocationHandle;/,/} CUmemPoolProps;/p' \
  "$fake/fake-cuda.h" | sed 's/CUmem/FakeMem/g')"
numbers "$fake/errors.c" 's/^  ERROR (\([0-9]*\), "\([A-Z0-9_]*\)".*/\1 CUDA_ERROR_\2/p' \
  >"$scratch/rows"
compare "... its statuses" "$(grep -c '^  ERROR (' "$fake/errors.c")"
numbers "$fake/fake-cuda.h" 's/^  FAKE_CUDA_\([A-Z_]*\) = \([1-9][0-9]*\),*$/\2 CUDA_ERROR_\1/p' \
  >"$scratch/rows"
compare "... by their names" 16
numbers "$fake/devices.c" \
  's/^  { \([0-9]*\), [0-9]* }, *\/\* \([A-Z0-9_]*\).*/\1 CU_DEVICE_ATTRIBUTE_\2/p' \
  >"$scratch/rows"
compare "... its attributes" "$(grep -c '^  { [0-9]*, [0-9]* },' "$fake/devices.c")"
done_testing
