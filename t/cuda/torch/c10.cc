/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A libc10.so, for torch-throw.t. */

#include "c10.h"

namespace c10
{
int n_errors;

Error::Error (SourceLocation location, std::string message)
    : message (std::move (message)), context (3, "a context that is longer than a short string")
{
  all = this->message + "\nfrom " + location.function + " of " + location.file;
  n_errors++;
}

Error::Error (const Error &other)
    : std::exception (other), message (other.message), context (other.context), all (other.all)
{
  n_errors++;
}

const char *
Error::what () const noexcept
{
  return all.c_str ();
}

const char *
Error::what_without_backtrace () const noexcept
{
  return message.c_str ();
}
}
