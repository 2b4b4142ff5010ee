#include "client/nfs4/flavors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/auth.h"

namespace penstock::client::v4 {
namespace {

using nfs_protocol::SecurityFlavor;
using testing::ElementsAre;

nfs4::secinfo4 Plain(rpc::AuthFlavor flavor) { return nfs4::secinfo4(flavor); }

nfs4::secinfo4 Gss(ConstBytes oid, nfs4::rpc_gss_svc_t service) {
  nfs4::rpcsec_gss_info info;
  info.oid = oid;
  info.service = service;
  return nfs4::secinfo4(rpc::AuthFlavor::RPCSEC_GSS, info);
}
nfs4::secinfo4 Kerberos(nfs4::rpc_gss_svc_t service) { return Gss(rpc::OidOf(rpc::GssMechanism::kKerberos), service); }

TEST(Flavors, KeepTheServersOrder) {
  const nfs4::SECINFO4resok list{Kerberos(nfs4::RPC_GSS_SVC_PRIVACY), Plain(rpc::AuthFlavor::AUTH_SYS),
                                 Kerberos(nfs4::RPC_GSS_SVC_NONE), Kerberos(nfs4::RPC_GSS_SVC_INTEGRITY),
                                 Plain(rpc::AuthFlavor::AUTH_NONE)};
  const Flavors flavors = FlavorsIn(list);
  EXPECT_THAT(flavors, ElementsAre(SecurityFlavor::kKrb5p, SecurityFlavor::kSys, SecurityFlavor::kKrb5,
                                   SecurityFlavor::kKrb5i, SecurityFlavor::kNone));
  EXPECT_EQ(TextOf(flavors), "krb5p, sys, krb5, krb5i, none");
}

TEST(Flavors, LeaveOutWhatTheClientDoesNotSpeak) {
  const std::string_view other = "\x2b\x06\x01\x05\x05\x02";  // SPNEGO
  const nfs4::SECINFO4resok list{Gss(AsBytes(other), nfs4::RPC_GSS_SVC_NONE),
                                 Gss(rpc::OidOf(rpc::GssMechanism::kConjunction), nfs4::RPC_GSS_SVC_NONE),
                                 Plain(rpc::AuthFlavor::AUTH_SHORT), Plain(rpc::AuthFlavor::AUTH_SYS),
                                 Plain(rpc::AuthFlavor::AUTH_SYS)};
  EXPECT_THAT(FlavorsIn(list), ElementsAre(SecurityFlavor::kSys));
}

TEST(Flavors, AnEmptyListHasNoFlavor) {
  EXPECT_THAT(FlavorsIn({}), ElementsAre());
  EXPECT_EQ(TextOf({}), "");
}

}  // namespace
}  // namespace penstock::client::v4
