#include "rpc/gss/kerberos.h"

#include <fmt/core.h>
#include <gssapi/gssapi_krb5.h>

#include <algorithm>
#include <array>
#include <utility>

#include "rpc/gss/gss_api.h"
#include "rpc/gss/kerberos_messages.h"

namespace penstock::rpc::gss {

struct Kerberos::Credential {
  ApiCredential handle;
};

class Kerberos::KerberosContext final : public WithKerberosMessages<MechanismContext> {
 public:
  explicit KerberosContext(const Kerberos& owner) : owner_(owner) {}

  Result<Step> Accept(ConstBytes token) override {
    gss_buffer_desc input = Lent(token);
    ApiBuffer output;
    ApiName initiator;
    OM_uint32 minor;
    const OM_uint32 major = gss_accept_sec_context(&minor, context_.out(), owner_.credential_->handle.get(), &input,
                                                   GSS_C_NO_CHANNEL_BINDINGS, initiator.out(), nullptr, output.out(),
                                                   nullptr, &lifetime_, nullptr);
    if (major != GSS_S_COMPLETE && major != GSS_S_CONTINUE_NEEDED) return KerberosFails(major, minor);
    initiator_ = std::move(initiator);
    return Step{.major = major, .minor = minor, .token = {output.bytes().begin(), output.bytes().end()}};
  }

  Result<Initiator> GetInitiator() override {
    Initiator initiator;
    OM_uint32 minor;
    ApiBuffer exported;
    ApiBuffer display;
    ApiBuffer local;
    if (const OM_uint32 major = gss_export_name(&minor, initiator_.get(), exported.out()))
      return KerberosFails(major, minor);
    if (const OM_uint32 major = gss_display_name(&minor, initiator_.get(), display.out(), nullptr)) {
      return KerberosFails(major, minor);
    }
    ApiName acceptor;
    ApiBuffer acceptor_display;
    if (const OM_uint32 major = gss_inquire_context(&minor, context_.get(), nullptr, acceptor.out(), nullptr, nullptr,
                                                    nullptr, nullptr, nullptr)) {
      return KerberosFails(major, minor);
    }
    if (const OM_uint32 major = gss_display_name(&minor, acceptor.get(), acceptor_display.out(), nullptr)) {
      return KerberosFails(major, minor);
    }
    initiator.names = {.name = exported.text(), .display = display.text(), .acceptor = acceptor_display.text()};
    if (lifetime_ != GSS_C_INDEFINITE) initiator.lifetime = std::chrono::seconds(lifetime_);
    // A principal may not map to a user: machines do not, nor users of other realms, unless the host's configuration
    // maps them.
    if (gss_localname(&minor, initiator_.get(), KerberosOid(), local.out()) != GSS_S_COMPLETE) return initiator;
    const std::string name = local.text();
    const Found<User> user = owner_.look_up_(name);
    if (!user) {
      // The context would act as nobody for hours.
      return std::unexpected(Failure{.text = fmt::format("user {} cannot be looked up on this host: {}", name,
                                                         DescribeErrno(user.error().error))});
    }
    if (*user) {
      initiator.uid = (*user)->uid;
      initiator.gid = (*user)->gid;
    }
    return initiator;
  }

 private:
  const Kerberos& owner_;
  ApiName initiator_;
  OM_uint32 lifetime_ = 0;
};

Kerberos::Kerberos(std::unique_ptr<Credential> credential, LookUp look_up)
    : credential_(std::move(credential)), look_up_(std::move(look_up)) {}

Kerberos::~Kerberos() = default;

std::unique_ptr<MechanismContext> Kerberos::Begin() { return std::make_unique<KerberosContext>(*this); }

SetupResult<std::unique_ptr<Kerberos>> Kerberos::Open(const std::string& path, LookUp look_up) {
  const std::string keytab = "FILE:" + path;
  gss_key_value_element_desc element{.key = "keytab", .value = keytab.c_str()};
  const gss_key_value_set_desc store{.count = 1, .elements = &element};
  gss_OID_set_desc mechanisms{.count = 1, .elements = KerberosOid()};
  const auto fail = [&path](const char* what, OM_uint32 major, OM_uint32 minor) {
    return std::unexpected(SetupError{fmt::format("{}: {}: {}", path.empty() ? "the host's keytab" : "keytab " + path,
                                                  what, KerberosFailure(major, minor).text)});
  };
  const auto acquire = [&](const ApiName& name, ApiCredential& credential, OM_uint32& minor) {
    return gss_acquire_cred_from(&minor, name.get(), GSS_C_INDEFINITE, &mechanisms, GSS_C_ACCEPT,
                                 path.empty() ? nullptr : &store, credential.out(), nullptr, nullptr);
  };
  OM_uint32 minor;
  // First asks for any key. A host without a keytab is the usual case, and MIT's library (1.20) leaks memory if it
  // finds no key of a given service.
  ApiCredential of_any_service;
  if (const OM_uint32 major = acquire({}, of_any_service, minor)) return fail("there are no keys", major, minor);
  ApiName service;
  gss_buffer_desc text = Lent(AsBytes("nfs"));
  if (const OM_uint32 major = gss_import_name(&minor, &text, GSS_C_NT_HOSTBASED_SERVICE, service.out())) {
    return fail("no name for the service", major, minor);
  }
  auto credential = std::make_unique<Credential>();
  if (const OM_uint32 major = acquire(service, credential->handle, minor)) {
    return fail("there is no key of the service nfs", major, minor);
  }
  return std::unique_ptr<Kerberos>(new Kerberos(std::move(credential), std::move(look_up)));
}

}  // namespace penstock::rpc::gss
