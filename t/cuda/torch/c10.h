/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The exceptions of PyTorch's libraries, as far as who throws and who catches them sees: names,
 * constructor and virtual functions are as there. */

#ifndef C10_H
#define C10_H

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace c10
{
struct SourceLocation
{
  const char *function;
  const char *file;
  std::uint32_t line;
};

extern int n_errors; /* alive */

class Error : public std::exception
{
public:
  Error (SourceLocation location, std::string message);
  Error (const Error &other);
  ~Error () override { n_errors--; }
  const char *what () const noexcept override;
  virtual const char *what_without_backtrace () const noexcept;

private:
  std::string message;
  std::vector<std::string> context;
  std::string all;
};

class OutOfMemoryError : public Error
{
public:
  using Error::Error;
};

void throw_out_of_memory ();
}

#endif
