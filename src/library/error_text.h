// What penstock_error_text() returns.
#pragma once

#include <cerrno>
#include <cstdint>
#include <new>
#include <string_view>
#include <system_error>

namespace penstock::library {

// Keeps the text of the calling thread's last failure.
void SetErrorText(std::string_view text);

// Keeps the text and returns -number, for `return Fail(EINVAL, "...")`.
int Fail(int number, std::string_view text);
// The same with the system's description of the number.
int Fail(int number);

// Runs the body of a function of the C API, and turns an exception into the failure that it means.
template <class Body>
auto Guarded(Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Fail(ENOMEM);
  } catch (const std::system_error& why) {
    const bool is_errno =
        why.code().category() == std::system_category() || why.code().category() == std::generic_category();
    return Fail(is_errno && why.code().value() > 0 ? why.code().value() : EIO, why.what());
  } catch (const std::exception& why) {
    return Fail(EIO, why.what());
  }
}

}  // namespace penstock::library
