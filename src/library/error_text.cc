#include "library/error_text.h"

#include <exception>
#include <string>

#include "base/result.h"
#include "penstock/penstock.h"

namespace penstock::library {
namespace {

// Of the last failure of a function of the C API on this thread.
thread_local std::string last_text;

}  // namespace

void SetErrorText(std::string_view text) {
  try {
    last_text = text;
  } catch (const std::bad_alloc&) {
    last_text.clear();
  }
}

int Fail(int number, std::string_view text) {
  SetErrorText(text);
  return -number;
}

int Fail(int number) {
  try {
    return Fail(number, DescribeErrno(number));
  } catch (const std::bad_alloc&) {
    return Fail(number, "out of memory");
  }
}

}  // namespace penstock::library

const char* penstock_error_text(void) { return penstock::library::last_text.c_str(); }
