// The frame of each method of EmbeddedCalls: it calls a function of the host, and checks its result.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <new>

#include "base/result.h"
#include "fs/errno.h"
#include "library/server/embedded.h"

namespace penstock::library {

// Marks the calling thread as one in a function of the host, see IsInEmbeddedFunction().
class InEmbeddedFunction {
 public:
  InEmbeddedFunction();
  ~InEmbeddedFunction();
  InEmbeddedFunction(const InEmbeddedFunction&) = delete;
  InEmbeddedFunction& operator=(const InEmbeddedFunction&) = delete;
};

template <class Function>
fs::Result<EmbeddedCalls::FromHost> EmbeddedCalls::Call(const char* name, Function function) {
  constexpr int64_t kLastErrno = 4095;  // as for system calls
  int64_t result = 0;
  try {
    const InEmbeddedFunction in_function;
    result = function();
  } catch (const std::bad_alloc&) {
    return std::unexpected(fs::Error::kDelay);
  } catch (const std::exception& thrown) {
    return Fault(name, fmt::format("has thrown an exception: {}", thrown.what()));
  } catch (...) {
    return Fault(name, "has thrown an exception");
  }
  if (result >= 0) return result;
  if (result < -kLastErrno) return Fault(name, fmt::format("has returned {}, which is no negative errno", result));
  const fs::Error error = fs::FromErrno(static_cast<int>(-result));
  if (error == fs::Error::kServerFault) {
    return Fault(name,
                 fmt::format("has returned {}, for which NFS has no error", DescribeErrno(static_cast<int>(-result))));
  }
  return std::unexpected(error);
}

template <class Function>
fs::Result<void> EmbeddedCalls::Do(const char* name, Function function) {
  PENSTOCK_TRY(const FromHost result, Call(name, function));
  if (result != 0) return Fault(name, fmt::format("has returned {} in place of zero", result));
  return {};
}

template <class Function>
fs::Result<penstock_handle> EmbeddedCalls::Find(const char* name, Function function) {
  penstock_handle found{};
  PENSTOCK_CHECK(Do(name, [&] { return function(&found); }));
  if (!IsValid(found)) return Fault(name, fmt::format("has returned a handle of {} octets", found.size));
  return found;
}

}  // namespace penstock::library
