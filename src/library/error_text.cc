#include "library/error_text.h"

#include <cassert>
#include <utility>

#include "penstock/penstock.h"

namespace penstock::library {
namespace {

std::string& TextOfThread() {
  thread_local std::string text;
  return text;
}

}  // namespace

void SetErrorText(std::string text) noexcept { TextOfThread() = std::move(text); }

int Fail(int number, std::string text) noexcept {
  assert(number > 0);
  SetErrorText(std::move(text));
  return -number;
}

}  // namespace penstock::library

const char* penstock_error_text() { return penstock::library::TextOfThread().c_str(); }
