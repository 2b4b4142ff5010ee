// The handles of GSS-API (RFC 2744) as owning values.
#pragma once

#include <gssapi/gssapi_ext.h>

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "rpc/gss/mechanism.h"

namespace penstock::rpc::gss {

// Owns a handle and releases it by `kRelease`, a function of a minor status and a pointer to the handle.
template <class Handle, auto kRelease>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    OM_uint32 minor;
    if (handle_) kRelease(&minor, &handle_);
  }
  Handle get() const { return handle_; }
  // For functions that set or update the handle.
  Handle* out() { return &handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle handle_ = nullptr;
};

inline OM_uint32 DeleteContext(OM_uint32* minor, gss_ctx_id_t* context) {
  return gss_delete_sec_context(minor, context, GSS_C_NO_BUFFER);
}

using ApiName = Owned<gss_name_t, gss_release_name>;
using ApiCredential = Owned<gss_cred_id_t, gss_release_cred>;
using ApiContext = Owned<gss_ctx_id_t, DeleteContext>;

// A buffer that the library has allocated.
class ApiBuffer {
 public:
  ApiBuffer() = default;
  ApiBuffer(const ApiBuffer&) = delete;
  ApiBuffer& operator=(const ApiBuffer&) = delete;
  ~ApiBuffer() {
    OM_uint32 minor;
    gss_release_buffer(&minor, &buffer_);
  }
  gss_buffer_t out() { return &buffer_; }
  ConstBytes bytes() const { return {static_cast<const std::byte*>(buffer_.value), buffer_.length}; }
  std::string text() const { return std::string(AsText(bytes())); }

 private:
  gss_buffer_desc buffer_ = GSS_C_EMPTY_BUFFER;
};

// Lends our octets to the library, which only reads them.
inline gss_buffer_desc Lent(ConstBytes octets) { return {octets.size(), const_cast<std::byte*>(octets.data())}; }

// Return the library's description of a failure of a mechanism; the second one if GSS_S_FAILURE says nothing more.
Failure FailureOf(OM_uint32 major, OM_uint32 minor, gss_OID mechanism);
Failure FailureOf(OM_uint32 minor, gss_OID mechanism);

}  // namespace penstock::rpc::gss
