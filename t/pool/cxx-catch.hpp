/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the tests of the headers for C++ share. */

#ifndef CXX_CATCH_HPP
#define CXX_CATCH_HPP

#include <exception>
#include <string>

#include <glib.h>

/* Calls a function that has to throw an Exception, which has to be a std::exception.  Gets what it
 * says. */
template <typename Exception, typename Function>
std::string
catch_from (Function function)
{
  try
    {
      function ();
    }
  catch (const std::exception &exception)
    {
      g_assert_nonnull (dynamic_cast<const Exception *> (&exception));
      return exception.what ();
    }
  g_assert_not_reached ();
}

#endif
