/**
 * @file
 * The results of the C++ API of libpenstock: a value, or an error with an errno and a text for people.
 */
#ifndef PENSTOCK_RESULT_HPP
#define PENSTOCK_RESULT_HPP

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

namespace penstock {

/** Why something failed. */
struct Error {
  int number = EIO;      /**< An errno: ENOENT. */
  std::string message{}; /**< One line for people. May be empty. */
};

/** What Result::value() throws in place of an error. code() is the errno, in the generic category. */
class Failure : public std::system_error {
 public:
  explicit Failure(const Error& error)
      : std::system_error(error.number, std::generic_category(), error.message), error_(error) {}
  /** The error itself. */
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

/** A value, or the error that is there in its place. */
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit, for return
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit, for return

  /** Whether there is a value. */
  explicit operator bool() const noexcept { return content_.index() == 0; }

  /** The value. Requires one. @{ */
  T& operator*() & { return *std::get_if<0>(&content_); }
  const T& operator*() const& { return *std::get_if<0>(&content_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&content_)); }
  T* operator->() { return std::get_if<0>(&content_); }
  const T* operator->() const { return std::get_if<0>(&content_); }
  /** @} */

  /** The value; without one, throws Failure. @{ */
  T& value() & {
    if (!*this) throw Failure(error());
    return **this;
  }
  const T& value() const& {
    if (!*this) throw Failure(error());
    return **this;
  }
  T&& value() && {
    if (!*this) throw Failure(error());
    return *std::move(*this);
  }
  /** @} */

  /** The error. Requires that there is no value. */
  const Error& error() const { return *std::get_if<1>(&content_); }

 private:
  std::variant<T, Error> content_;
};

/** Success, or an error. */
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit, for return

  /** Whether it is a success. */
  explicit operator bool() const noexcept { return !error_; }
  /** Throws Failure unless it is a success. */
  void value() const {
    if (error_) throw Failure(*error_);
  }
  /** The error. Requires that there is one. */
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace penstock

#endif
