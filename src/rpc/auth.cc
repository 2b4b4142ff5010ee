#include "rpc/auth.h"

#include <algorithm>
#include <string_view>

#include "protocol/rpcsec_gss.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::rpc {
namespace {

constexpr size_t kMaxMachineName = 255;

// 1.2.840.113554.1.2.2
constexpr std::string_view kKerberosOid = "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
// 2.25.117384473133603138457143322886369148965: the arc of UUIDs needs no registration. The UUID is
// 584f6d5b-c2d4-439a-8fee-2d46b8fb8025.
constexpr std::string_view kConjunctionOid =
    "\x69\x81\xb0\xcf\xb6\xd6\xf8\xad\xa2\x8e\xb5\x8f\xf7\x8b\xa8\xeb\xc7\xee\x80\x25";

// Decodes authsys_parms (RFC 5531 appendix A) by hand, so that the groups go straight into the array.
bool DecodeAuthSys(ConstBytes body, Credential& credential) {
  xdr::Message message;
  message.stream = Slice::Borrowed(body);
  xdr::Decoder decoder(message);
  uint32_t stamp;
  ConstBytes machine;
  size_t count;
  if (!decoder.U32(stamp) || !decoder.Opaque(machine, kMaxMachineName) || !decoder.U32(credential.uid) ||
      !decoder.U32(credential.gid) || !decoder.Length(count, credential.group_ids.size())) {
    return false;
  }
  credential.group_count = static_cast<uint8_t>(count);
  for (size_t i = 0; i < count; ++i) {
    if (!decoder.U32(credential.group_ids[i])) return false;
  }
  return decoder.Finish();
}

}  // namespace

ConstBytes OidOf(GssMechanism mechanism) {
  return AsBytes(mechanism == GssMechanism::kKerberos ? kKerberosOid : kConjunctionOid);
}

AuthStatus Authenticate(const CallHeader& header, Credential& credential) {
  credential.flavor = header.credential.flavor;
  switch (header.credential.flavor) {
    case AuthFlavor::AUTH_NONE:
      break;  // its body is undefined (RFC 5531 §10.1), so it is ignored
    case AuthFlavor::AUTH_SYS:
      if (!DecodeAuthSys(header.credential.body.bytes(), credential)) return AuthStatus::AUTH_BADCRED;
      break;
    case AuthFlavor::AUTH_SHORT:
      // We never give out a shorthand, so the client must send its full credential again.
      return AuthStatus::AUTH_REJECTEDCRED;
    default:
      return AuthStatus::AUTH_BADCRED;  // RFC 9289 §4.1 expects this of a server without AUTH_TLS
  }
  // Both flavors need an AUTH_NONE verifier (RFC 5531 §10.1, appendix A).
  return header.verifier.flavor == AuthFlavor::AUTH_NONE ? AuthStatus::AUTH_OK : AuthStatus::AUTH_BADVERF;
}

namespace {

template <class T>
std::vector<std::byte> Encoded(const T& value) {
  BufferPool pool;
  xdr::Encoder encoder(pool);
  xdr::Encode(encoder, value);
  const Message message = encoder.Finish();
  return {message.stream.bytes().begin(), message.stream.bytes().end()};
}

std::vector<std::byte> Template(rpcsecgss::rpc_gss_proc_t procedure, GssService service) {
  rpcsecgss::rpc_gss_cred_vers_1_t credential;
  credential.gss_proc = procedure;
  credential.service = static_cast<rpcsecgss::rpc_gss_service_t>(service);
  return Encoded(rpcsecgss::rpc_gss_cred_t(rpcsecgss::RPCSEC_GSS_VERS_1, credential));
}

}  // namespace

ClientCredential::ClientCredential(GssService service)
    : flavor_(AuthFlavor::RPCSEC_GSS), body_(Template(rpcsecgss::RPCSEC_GSS_DATA, service)) {}

ClientCredential::ClientCredential(GssService service, std::shared_ptr<ReverseProtection> protection)
    : ClientCredential(service) {
  protection_ = std::move(protection);
}

ClientCredential ClientCredential::EndOfContext() {
  ClientCredential credential;
  credential.flavor_ = AuthFlavor::RPCSEC_GSS;
  credential.body_ = Template(rpcsecgss::RPCSEC_GSS_DESTROY, GssService::kNone);
  return credential;
}

ClientCredential::ClientCredential(const SystemIdentity& identity) : flavor_(AuthFlavor::AUTH_SYS) {
  rpcmsg::authsys_parms parameters;
  parameters.machinename = std::string_view(identity.machine).substr(0, kMaxMachineName);
  parameters.uid = identity.uid;
  parameters.gid = identity.gid;
  const size_t groups = std::min(identity.groups.size(), decltype(parameters.gids)::kMax);
  parameters.gids.assign(identity.groups.begin(), identity.groups.begin() + static_cast<ptrdiff_t>(groups));
  body_ = Encoded(parameters);
}

}  // namespace penstock::rpc
