// Errors as values. There are three kinds, never mixed. An error in a peer's bytes is a Result with the layer's own
// error type. A bug of ours is an assert. A set-up error is a SetupResult; main reports it with advice.
#pragma once

#include <cerrno>
#include <expected>
#include <string>
#include <system_error>
#include <utility>

namespace penstock {

template <class T, class E>
using Result = std::expected<T, E>;

// An error that the operator can act on. `message` is one line without a full stop.
struct SetupError {
  std::string message;
  int number = EINVAL;  // the errno that describes it, for programs
};

template <class T>
using SetupResult = std::expected<T, SetupError>;

// Returns the operating system's description of an errno value. Thread-safe.
inline std::string DescribeErrno(int error) { return std::system_category().message(error); }

}  // namespace penstock

#define PENSTOCK_CONCAT_(a, b) a##b
#define PENSTOCK_CONCAT(a, b) PENSTOCK_CONCAT_(a, b)

// PENSTOCK_TRY(auto value, Expression()); returns the error of Expression() from the function, or defines `value`.
#define PENSTOCK_TRY_IMPL(ret, result, declaration, ...)       \
  auto result = (__VA_ARGS__);                                 \
  if (!result) ret std::unexpected(std::move(result).error()); \
  declaration = *std::move(result)
#define PENSTOCK_TRY(declaration, ...) \
  PENSTOCK_TRY_IMPL(return, PENSTOCK_CONCAT(result_, __LINE__), declaration, __VA_ARGS__)
#define PENSTOCK_CO_TRY(declaration, ...) \
  PENSTOCK_TRY_IMPL(co_return, PENSTOCK_CONCAT(result_, __LINE__), declaration, __VA_ARGS__)

// The same for a Result<void, E>.
#define PENSTOCK_CHECK_IMPL(ret, result, ...) \
  if (auto result = (__VA_ARGS__); !result) ret std::unexpected(std::move(result).error())
#define PENSTOCK_CHECK(...) PENSTOCK_CHECK_IMPL(return, PENSTOCK_CONCAT(result_, __LINE__), __VA_ARGS__)
#define PENSTOCK_CO_CHECK(...) PENSTOCK_CHECK_IMPL(co_return, PENSTOCK_CONCAT(result_, __LINE__), __VA_ARGS__)
