/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Throws PyTorch's C++ exceptions from a C library that is built without PyTorch.  An allocator for
 * PyTorch can report that memory has run out only by an exception.  If the allocator returned NULL,
 * PyTorch would not check that, and would make a tensor at address 0.
 *
 * This file makes a c10::Error object as a C++ compiler does by the Itanium C++ ABI, with functions
 * and types that it finds in the libraries of the process.  The constructor c10::Error
 * (SourceLocation, std::string) has been the same since PyTorch 1.5.  A c10::OutOfMemoryError
 * object has the same layout as a c10::Error, but another table of virtual functions.  If a
 * function or type is not found, nothing is thrown. */

#include <dlfcn.h>

#include "frameworks-private.h"

/* The layout of c10::SourceLocation. */
typedef struct
{
  const char *function;
  const char *file;
  guint32 line;
} SourceLocation;

/* A std::string of libstdc++'s new ABI.  The struct only has the right size: libstdc++'s functions
 * read and write it, and Tarn's code does not use the field "words". */
typedef struct
{
  guint64 words[4];
} String;

/* The number of bytes that Tarn allocates for an exception object.  That is enough for a
 * c10::Error, which has 128 bytes with 64-bit pointers. */
#define ERROR_BYTES 1024

/* An exception class of PyTorch. */
typedef struct
{
  void *type; /* the class's type_info */
  /* the vtable pointer with which each object of the class begins; the vtable's first function is
   * the destructor */
  void **vtable;
} Class;

typedef struct
{
  void *(*allocate) (size_t size);
  void (*throw) (void *object, void *type, void (*destructor) (void *object));
  void (*string_init) (String *string, const char *text, const void *allocator);
  void (*string_clear) (String *string);
  void (*error_init) (void *object, SourceLocation location, String *message);
  Class error;
  Class out_of_memory;
} Torch;

/* Libraries of PyTorch in which find () searches for symbols.  For each library, dlsym () also
 * searches the libraries that this library depends on, so in libc10.so it finds the symbols of the
 * C++ library, too. */
static const gchar *const cores[] = { "libc10.so", NULL };
static const gchar *const backends[]
    = { "libc10_cuda.so", "libtorch_cuda.so", "libtorch_python.so", NULL };

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

/* Finds a symbol in @libraries.  Skips libraries that the process has not loaded.  Logs a debug
 * message if the symbol is missing. */
static void *
find (const gchar *const *libraries, const gchar *symbol)
{
  for (gsize i = 0; libraries[i] != NULL; i++)
    {
      void *library = dlopen (libraries[i], RTLD_LAZY | RTLD_NOLOAD);
      void *found = library != NULL ? dlsym (library, symbol) : NULL;

      if (library != NULL)
        dlclose (library); /* does not unload the library, which the process itself has loaded */
      if (found != NULL)
        return found;
    }
  g_debug ("no %s in %s", symbol, libraries[0]);
  return NULL;
}

static gboolean
find_class (Class *class, const gchar *const *libraries, const gchar *name)
{
  g_autofree gchar *type = g_strconcat ("_ZTI", name, NULL);
  g_autofree gchar *table = g_strconcat ("_ZTV", name, NULL);
  void **vtable = find (libraries, table);

  class->type = find (libraries, type);
  /* Skip the table's first two entries, offset-to-top and type_info.  The functions follow after
   * these. */
  class->vtable = vtable != NULL ? vtable + 2 : NULL;
  return class->type != NULL && vtable != NULL;
}

/* Finds a symbol, and stores the symbol's address in @function, a pointer to a function.  Evaluates
 * to TRUE if the symbol was found, otherwise to FALSE.  POSIX allows the conversion of the pointer
 * from dlsym () to a function pointer. */
#define FIND(function, libraries, symbol)                                                          \
  (*(void **) &(function) = find ((libraries), (symbol)), (function) != NULL)

static gboolean
find_torch (Torch *torch)
{
  return FIND (torch->allocate, cores, "__cxa_allocate_exception")
         && FIND (torch->throw, cores, "__cxa_throw")
         && FIND (torch->string_init, cores,
                  "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1EPKcRKS3_")
         && FIND (torch->string_clear, cores,
                  "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEED1Ev")
         && FIND (torch->error_init, cores, "_ZN3c105ErrorC1ENS_14SourceLocationE" STRING)
         && find_class (&torch->error, cores, "N3c105ErrorE")
         && find_class (&torch->out_of_memory, backends, "N3c1016OutOfMemoryErrorE");
}

/* Looks for PyTorch's libraries in each call, because a process may load them at any time.
 * Exceptions are rare, so the search may be slow. */
void
_tarn_cuda_torch_throw (gboolean is_out_of_memory, gchar *message)
{
  const SourceLocation location = { "tarn_cuda_torch_malloc", "libtarn-cuda", 0 };
  Torch torch;
  const Class *class = is_out_of_memory ? &torch.out_of_memory : &torch.error;
  void *object;
  String string;
  /* A C++ function wants a pointer to a std::allocator.  That class has no data, so Tarn passes the
   * address of this variable. */
  gchar allocator = 0;

  if (!find_torch (&torch))
    {
      g_warning ("%s", message);
      g_free (message);
      return;
    }
  object = torch.allocate (ERROR_BYTES);
  torch.string_init (&string, message, &allocator);
  g_free (message);
  torch.error_init (object, location, &string);
  torch.string_clear (&string);
  *(void ***) object = class->vtable;
  torch.throw (object, class->type, *(void (**) (void *)) class->vtable);
}
