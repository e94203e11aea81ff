# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Takes a page of doc/guide apart, for t/tree/guide.t: each block goes into a file of its own in DIR,
# named by the line on which it begins, and a line "NUMBER KIND ARGUMENT" about it goes to standard
# output.

function begin (kind, argument)
{
  open = kind
  file = dir "/" NR + 1
  printf "" >file
  print NR + 1, kind, argument
}

function end ()
{
  close (file)
  open = ""
}

function fault (text)
{
  print NR, "fault", text
}

BEGIN { reason = -1 }

open == "preamble" && /^-->$/ { end (); next }
open != "" && open != "preamble" && /^```$/ { end (); next }
open != "" { print >file; next }

/^<!-- c$/ { begin ("preamble"); next }
/^<!-- not run: .* -->$/ { reason = NR; next }
/^ +```/ { fault ("a block is indented"); next }
/^```c$/ { begin ("fragment"); next }
/^```c functions$/ { begin ("functions"); next }
/^```(c|cpp|python) doc\/examples\/[^ ]*$/ { begin ("quotation", $2); next }
/^```(c|cpp|cmake|make) [A-Za-z][^ \/]*$/ { begin ("file", $2); next }
/^```sh$/ { begin ("sh"); next }
/^```output$/ { begin ("output"); next }
/^```console$/ {
  if (reason != NR - 1)
    fault ("it is not said why this is not run: <!-- not run: ... -->")
  begin ("console")
  next
}
/^```/ { fault ("no such kind of block: " $0) }

END { if (open != "") fault ("a block has no end") }
