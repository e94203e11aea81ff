# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What Doxygen is given of a .c file: its public functions, each as its comment and its head with
# an empty body.  Every other line is an empty one, so that messages name the right line.

function flush_comment (keep,    i)
{
  for (i = 1; i <= n_lines; i++)
    print keep ? lines[i] : ""
  n_lines = 0
}

in_head && /^{$/ { print "{}"; in_head = 0; next }
in_head { print; next }
/^\/\*\*$/ { flush_comment(0); in_comment = 1 }
in_comment {
  lines[++n_lines] = $0
  if (/^ \*\/$/)
    in_comment = 0
  next
}
# The line of the type is between the comment and the name.
n_lines && /^tarn_[a-z0-9_]* \(/ { flush_comment(1); in_head = 1; print; next }
n_lines && /^[A-Za-z]/ { lines[++n_lines] = $0; next }
{ flush_comment(0); print "" }
END { flush_comment(0) }
