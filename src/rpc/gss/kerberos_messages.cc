#include "rpc/gss/kerberos_messages.h"

#include <gssapi/gssapi_krb5.h>

#include <algorithm>
#include <array>

namespace penstock::rpc::gss {
namespace {

// The parts around a wrapped text, in their order in memory.
struct Layout {
  enum Part : uint8_t { kHeader, kText, kPadding, kTrailer, kParts };
  std::array<gss_iov_buffer_desc, kParts> parts{{{.type = GSS_IOV_BUFFER_TYPE_HEADER, .buffer = {}},
                                                 {.type = GSS_IOV_BUFFER_TYPE_DATA, .buffer = {}},
                                                 {.type = GSS_IOV_BUFFER_TYPE_PADDING, .buffer = {}},
                                                 {.type = GSS_IOV_BUFFER_TYPE_TRAILER, .buffer = {}}}};

  size_t length(Part part) const { return parts[part].buffer.length; }
  WrapRoom room() const { return {.before = length(kHeader), .behind = length(kPadding) + length(kTrailer)}; }
};

// RFC 2203 §5.3.3.1: a call uses one quality of protection throughout. We accept only the default.
Result<void> CheckQuality(gss_qop_t quality) {
  if (quality != GSS_C_QOP_DEFAULT) return KerberosFails(GSS_S_BAD_QOP, 0);
  return {};
}

Result<Layout> LayoutFor(const ApiContext& context, size_t octets) {
  Layout layout;
  layout.parts[Layout::kText].buffer.length = octets;
  OM_uint32 minor;
  const OM_uint32 major = gss_wrap_iov_length(&minor, context.get(), 1, GSS_C_QOP_DEFAULT, nullptr, layout.parts.data(),
                                              static_cast<int>(layout.parts.size()));
  if (major != GSS_S_COMPLETE) return KerberosFails(major, minor);
  return layout;
}

}  // namespace

gss_OID KerberosOid() { return const_cast<gss_OID>(gss_mech_krb5); }

Failure KerberosFailure(OM_uint32 major, OM_uint32 minor) { return FailureOf(major, minor, KerberosOid()); }

Failure KerberosFailure(OM_uint32 minor) { return FailureOf(minor, KerberosOid()); }

Result<void> VerifyKerberosMic(const ApiContext& context, ConstBytes message, ConstBytes mic) {
  gss_buffer_desc text = Lent(message);
  gss_buffer_desc token = Lent(mic);
  OM_uint32 minor;
  gss_qop_t quality = GSS_C_QOP_DEFAULT;
  const OM_uint32 major = gss_verify_mic(&minor, context.get(), &text, &token, &quality);
  if (major != GSS_S_COMPLETE) return KerberosFails(major, minor);
  return CheckQuality(quality);
}

Result<void> GetKerberosMic(const ApiContext& context, ConstBytes message, Mic& mic) {
  gss_buffer_desc text = Lent(message);
  ApiBuffer token;
  OM_uint32 minor;
  const OM_uint32 major = gss_get_mic(&minor, context.get(), GSS_C_QOP_DEFAULT, &text, token.out());
  if (major != GSS_S_COMPLETE) return KerberosFails(major, minor);
  if (token.bytes().size() > mic.room.size()) return KerberosFails(GSS_S_FAILURE, 0);
  CopyBytes(mic.room, token.bytes());
  mic.size = token.bytes().size();
  return {};
}

Result<WrapRoom> RoomToWrapByKerberos(const ApiContext& context, size_t octets) {
  PENSTOCK_TRY(const Layout layout, LayoutFor(context, octets));
  return layout.room();
}

Result<void> WrapByKerberos(const ApiContext& context, Bytes message, const WrapRoom& room) {
  PENSTOCK_TRY(Layout layout, LayoutFor(context, message.size() - room.before - room.behind));
  if (layout.room().before != room.before || layout.room().behind != room.behind)
    return KerberosFails(GSS_S_FAILURE, 0);
  std::byte* at = message.data();
  for (gss_iov_buffer_desc& part : layout.parts) {
    part.buffer.value = at;
    at += part.buffer.length;
  }
  OM_uint32 minor;
  int encrypted = 0;
  const OM_uint32 major = gss_wrap_iov(&minor, context.get(), 1, GSS_C_QOP_DEFAULT, &encrypted, layout.parts.data(),
                                       static_cast<int>(layout.parts.size()));
  if (major != GSS_S_COMPLETE) return KerberosFails(major, minor);
  if (!encrypted) return KerberosFails(GSS_S_UNAVAILABLE, 0);
  return {};
}

Result<Bytes> UnwrapByKerberos(const ApiContext& context, Bytes message) {
  std::array<gss_iov_buffer_desc, 2> parts{
      {{.type = GSS_IOV_BUFFER_TYPE_STREAM, .buffer = {message.size(), message.data()}},
       {.type = GSS_IOV_BUFFER_TYPE_DATA, .buffer = {}}}};
  OM_uint32 minor;
  int encrypted = 0;
  gss_qop_t quality = GSS_C_QOP_DEFAULT;
  const OM_uint32 major = gss_unwrap_iov(&minor, context.get(), &encrypted, &quality, parts.data(), parts.size());
  if (major != GSS_S_COMPLETE) return KerberosFails(major, minor);
  // RFC 2203 §5.3.2.3: under privacy the text must be encrypted, not only signed.
  if (!encrypted) return KerberosFails(GSS_S_DEFECTIVE_TOKEN, 0);
  PENSTOCK_CHECK(CheckQuality(quality));
  return Bytes(static_cast<std::byte*>(parts[1].buffer.value), parts[1].buffer.length);
}

}  // namespace penstock::rpc::gss
