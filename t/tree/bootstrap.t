#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# bootstrap: which packages it installs for each command, what it says where it cannot, and when it
# configures again.  Nothing is installed or built: what it calls is replaced, and writes a log.
. "$(dirname "$0")/../lib/tap.sh"

bin=$scratch/bin
tree=$scratch/tree
mkdir "$bin" "$tree" "$tree/debian" "$tree/t"
for tool in cat dirname env grep sed sh touch; do
  ln -s "$(command -v $tool)" "$bin/$tool"
done
cp "$top_srcdir/bootstrap" "$tree/"
cp "$top_srcdir/debian/control" "$tree/debian/"

fake () { # FILE: standard input is what it does, in sh
  { echo "#!$bin/sh"; cat; } >"$1" && chmod +x "$1"
}

fake "$bin/id" <<'PROGRAM'
echo "$user"
PROGRAM
fake "$bin/dpkg-query" <<'PROGRAM'
for package; do :; done
grep -qxF "$package" "$scratch/installed" && echo "ii "
PROGRAM
fake "$bin/apt-get" <<'PROGRAM'
while [ $# -gt 0 ] && [ "$1" != install ]; do shift; done
[ $# -gt 0 ] || exit 0
shift
for package; do echo "$package"; done >>"$scratch/asked"
cat "$scratch/asked" >>"$scratch/installed"
PROGRAM
for name in bin/autoreconf bin/make tree/configure tree/config.status tree/t/count-results; do
  fake "$scratch/$name" <<'PROGRAM'
echo "${0##*/} $*" >>"$scratch/log"
PROGRAM
done
export scratch user

new_machine () { # USER
  user=$1
  : >"$scratch/installed"
}

# What it asks apt-get for is in $scratch/asked, and what else it calls in $scratch/log.
bootstrap () { # STATUS COMMAND
  : >"$scratch/asked"
  : >"$scratch/log"
  status_is "$1" env PATH="$bin" JOBS=1 "$tree/bootstrap" "$2"
}

asks_for () { # PACKAGE...
  for package; do
    grep -qxF "$package" "$scratch/asked" || { echo "not $package"; return 1; }
  done
}

asks_not_for () { # PACKAGE...
  for package; do
    ! grep -xF "$package" "$scratch/asked" || return
  done
}

# The names in debian/control, but what only packages and documentation need.
list_control () {
  sed -n '/^Build-Depends:/,/^[^B ]/{/<!nodoc>/d;s/^\(Build-Depends:\)* *\([a-z0-9.+-]*\).*,*$/\2/p;}' \
    "$tree/debian/control" | grep '^[a-z]' | grep -v '^debhelper'
}

asks_for_control () {
  list_control >"$scratch/listed"
  [ "$(wc -l <"$scratch/listed")" -gt 8 ] || return
  while read -r package; do
    asks_for "$package" || return
  done <"$scratch/listed"
}

says_how () { # PACKAGE...: the last line is a command that installs them, and nothing is run
  tail -n 1 "$scratch/err" | grep -q 'as root: apt-get install .*' || return
  for package; do
    tail -n 1 "$scratch/err" | grep -q " $package\\>" || { echo "not $package"; return 1; }
  done
  ! grep -q 'not found' "$scratch/err" && [ ! -s "$scratch/asked" ]
}

new_machine 1000
mv "$bin/autoreconf" "$scratch/"
check "no root, no sudo, no autoconf: it fails" bootstrap 1 demo
check "... with the command that is needed" says_how autoconf libglib2.0-dev pocl-opencl-icd
mv "$scratch/autoreconf" "$bin/"
touch "$tree/Makefile.in"
check "... with an autoconf from elsewhere: it goes on" bootstrap 0 build
check "... through configure and make" grep -q '^make' "$scratch/log"
check "... after it has said what is missing" \
  grep -q 'packages are missing: autoconf .*libjson-glib-dev' "$scratch/err"

new_machine 0
check "root, demo" bootstrap 1 demo # there is no example
check "... what it needs" asks_for autoconf automake gcc libtool make pkg-config libglib2.0-dev \
  ocl-icd-opencl-dev pocl-opencl-icd
check "... and no more" asks_not_for g++ clinfo cmake debhelper doxygen libjson-glib-dev mandoc
check "then check" bootstrap 0 check
check "... what tests need" asks_for g++ clinfo cmake libjson-glib-dev mandoc
check "... and not what is there" asks_not_for autoconf gcc pocl-opencl-icd
check "then all again" bootstrap 0 check
check "... installs nothing" test ! -s "$scratch/asked"

new_machine 0
check "root, check" bootstrap 0 check
check "... all that debian/control says" asks_for_control
check "... but not for documentation, or packages" asks_not_for debhelper doxygen xsltproc

if [ -e /var/lib/dpkg/status ]; then
  touch "$tree/Makefile"
  touch -d 2000-01-01 "$tree/config.status"
  check "packages came since it was configured" bootstrap 0 build
  check "... it is, again" grep -q '^config.status .*--recheck' "$scratch/log"
  touch "$tree/config.status"
  check "none came" bootstrap 0 build
  check "... it is not" test -z "$(grep config "$scratch/log")"
else
  skip "packages came since it was configured" "no Debian"
fi
done_testing
