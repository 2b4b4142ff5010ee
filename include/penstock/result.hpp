/**
 * @file
 * Errors and results. Functions of the C++ API of libpenstock return a penstock::Result, and do not throw for what a
 * server or the network does. Result::value() throws, for programs that prefer exceptions.
 *
 * Two kinds of exceptions remain: std::bad_alloc from functions that allocate memory, and the exceptions of the
 * program's own functions.
 *
 * All names are in the inline namespace penstock::v1. Programs write penstock::Result and so on. A later version of
 * the headers that changes the classes gets another inline namespace, so that parts of a program that were built with
 * different versions of the headers can be linked together.
 */
#ifndef PENSTOCK_RESULT_HPP
#define PENSTOCK_RESULT_HPP

#include <cassert>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace penstock::inline v1 {

/** Why an operation failed. */
struct Error {
  int number = 0;        /**< A positive errno, such as ENOENT. */
  std::string message{}; /**< One line for people, without a full stop. */

  /** Returns the number as a code of std::generic_category(), which compares equal to a std::errc. */
  std::error_code code() const noexcept { return {number, std::generic_category()}; }

  /** Whether both the numbers and the messages are the same. */
  friend bool operator==(const Error&, const Error&) = default;
};

/** The exception that Result::value() throws. Its code() is Error::code(), and its what() is Error::message. */
class Failure : public std::system_error {
 public:
  /** Makes the exception of an error. */
  explicit Failure(Error error)
      : std::system_error(error.code()), error_(std::make_shared<const Error>(std::move(error))) {}

  /** Returns the error. The reference is valid as long as the exception. */
  const Error& error() const noexcept { return *error_; }
  /** Returns the message of the error, or the description of its number if it has no message. */
  const char* what() const noexcept override {
    return error_->message.empty() ? std::system_error::what() : error_->message.c_str();
  }

 private:
  std::shared_ptr<const Error> error_;  // shared, because the copy constructor of an exception must not throw
};

/**
 * A value or an Error, like std::expected<T, Error> of C++23. T is not a reference and not Error.
 *
 * Unlike std::expected, `*` and value() of a result that is a temporary object return the value itself, not a reference
 * into the result. So `for (const Entry& entry : *mount.List("/").Get())` is correct.
 */
template <class T = void>
class [[nodiscard]] Result {
 public:
  using value_type = T;     /**< The type of the value. */
  using error_type = Error; /**< The type of the error. */

  /** Makes a success. */
  template <class U = T>
    requires(std::is_constructible_v<T, U> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error>)
  // NOLINTNEXTLINE: implicit, as in std::expected
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  /** Makes a failure. */
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  /** Tells whether this is a success. */
  bool has_value() const noexcept { return state_.index() == 0; }
  /** Tells whether this is a success. */
  explicit operator bool() const noexcept { return has_value(); }

  /** Returns the value of a success. It is undefined for a failure. */
  T& operator*() & noexcept {
    assert(has_value());
    return *std::get_if<0>(&state_);
  }
  /** Returns the value of a success. It is undefined for a failure. */
  const T& operator*() const& noexcept {
    assert(has_value());
    return *std::get_if<0>(&state_);
  }
  /** Moves the value out of a success. It is undefined for a failure. */
  T operator*() && { return std::move(**this); }
  /** Returns the value of a success. It is undefined for a failure. */
  T* operator->() noexcept { return &**this; }
  /** Returns the value of a success. It is undefined for a failure. */
  const T* operator->() const noexcept { return &**this; }

  /** Returns the value. Throws Failure if there is none. */
  T& value() & {
    Check();
    return **this;
  }
  /** Returns the value. Throws Failure if there is none. */
  const T& value() const& {
    Check();
    return **this;
  }
  /** Moves the value out. Throws Failure if there is none. */
  T value() && {
    Check();
    return std::move(**this);
  }
  /** Returns the value, or `other` for a failure. */
  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(other));
  }
  /** Moves the value out, or returns `other` for a failure. */
  template <class U>
  T value_or(U&& other) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
  }

  /** Returns the error of a failure. It is undefined for a success. */
  const Error& error() const& noexcept {
    assert(!has_value());
    return *std::get_if<1>(&state_);
  }
  /** Returns the error of a failure. It is undefined for a success. */
  Error& error() & noexcept {
    assert(!has_value());
    return *std::get_if<1>(&state_);
  }
  /** Moves the error out of a failure. It is undefined for a success. */
  Error error() && { return std::move(error()); }

 private:
  void Check() const {
    if (!has_value()) throw Failure(error());
  }

  std::variant<T, Error> state_;
};

/** Success without a value, or an Error. */
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;  /**< The type of the value. */
  using error_type = Error; /**< The type of the error. */

  /** Makes a success. */
  Result() = default;
  /** Makes a failure. */
  Result(Error error) : error_(std::move(error)), failed_(true) {}  // NOLINT: implicit

  /** Tells whether this is a success. */
  bool has_value() const noexcept { return !failed_; }
  /** Tells whether this is a success. */
  explicit operator bool() const noexcept { return has_value(); }
  /** Does nothing for a success. It is undefined for a failure. */
  void operator*() const noexcept { assert(has_value()); }
  /** Throws Failure for a failure. */
  void value() const {
    if (failed_) throw Failure(error_);
  }

  /** Returns the error of a failure. It is undefined for a success. */
  const Error& error() const& noexcept {
    assert(failed_);
    return error_;
  }
  /** Returns the error of a failure. It is undefined for a success. */
  Error& error() & noexcept {
    assert(failed_);
    return error_;
  }
  /** Moves the error out of a failure. It is undefined for a success. */
  Error error() && { return std::move(error()); }

 private:
  Error error_;
  bool failed_ = false;
};

}  // namespace penstock::inline v1

#endif
