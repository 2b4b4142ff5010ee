// The protection of messages under Kerberos V5 (RFC 4121), for both ends of a context.
#pragma once

#include "rpc/gss/gss_api.h"
#include "rpc/gss/mechanism.h"

namespace penstock::rpc::gss {

// The object identifier of the mechanism.
gss_OID KerberosOid();
// Makes the failure of a function of the library.
Failure KerberosFailure(OM_uint32 major, OM_uint32 minor);
// The same for a function whose major status only says that it has failed.
Failure KerberosFailure(OM_uint32 minor);
inline std::unexpected<Failure> KerberosFails(OM_uint32 major, OM_uint32 minor) {
  return std::unexpected(KerberosFailure(major, minor));
}

// The functions of MessageProtection for an established context.
Result<void> VerifyKerberosMic(const ApiContext& context, ConstBytes message, ConstBytes mic);
Result<void> GetKerberosMic(const ApiContext& context, ConstBytes message, Mic& mic);
Result<WrapRoom> RoomToWrapByKerberos(const ApiContext& context, size_t octets);
Result<void> WrapByKerberos(const ApiContext& context, Bytes message, const WrapRoom& room);
Result<Bytes> UnwrapByKerberos(const ApiContext& context, Bytes message);

// Adds them to one end of a context, which is MechanismContext or InitiatingContext.
template <class End>
class WithKerberosMessages : public End {
 public:
  Result<void> VerifyMic(ConstBytes message, ConstBytes mic) override {
    return VerifyKerberosMic(context_, message, mic);
  }
  Result<void> GetMic(ConstBytes message, Mic& mic) override { return GetKerberosMic(context_, message, mic); }
  Result<WrapRoom> RoomToWrap(size_t octets) override { return RoomToWrapByKerberos(context_, octets); }
  Result<void> Wrap(Bytes message, const WrapRoom& room) override { return WrapByKerberos(context_, message, room); }
  Result<Bytes> Unwrap(Bytes message) override { return UnwrapByKerberos(context_, message); }

 protected:
  ApiContext context_;
};

}  // namespace penstock::rpc::gss
