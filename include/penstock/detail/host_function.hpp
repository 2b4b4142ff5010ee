// How the C functions of this library call the methods of a program's object. Not for programs.
#ifndef PENSTOCK_DETAIL_HOST_FUNCTION_HPP
#define PENSTOCK_DETAIL_HOST_FUNCTION_HPP

#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>

#include "penstock/result.hpp"

namespace penstock::inline v1::detail {

// The negative errno of an error.
inline int64_t NegativeErrno(const Error& error) noexcept {
  return -static_cast<int64_t>(error.number > 0 ? error.number : EIO);
}

// Returns what `function` returns. No exception leaves it.
template <class Function>
int64_t RunHostFunction(Function function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::system_error& error) {
    const std::error_code& code = error.code();
    const bool is_errno = code.category() == std::generic_category() || code.category() == std::system_category();
    return is_errno && code.value() > 0 ? -code.value() : -EIO;
  } catch (...) {
    return -EIO;
  }
}

}  // namespace penstock::inline v1::detail

#endif
