#include "rpc/gss/kerberos_client.h"

#include <fmt/core.h>
#include <gssapi/gssapi_krb5.h>
#include <krb5.h>

#include <array>
#include <atomic>
#include <utility>

#include "rpc/gss/gss_api.h"
#include "rpc/gss/kerberos_messages.h"

namespace penstock::rpc::gss {
namespace {

constexpr uint32_t CodeOf(krb5_error_code code) { return static_cast<uint32_t>(code); }

// The failures that users can mend, and how.
struct Advice {
  uint32_t code;
  std::string_view text;
};
constexpr std::string_view kNoTicket = "there is no Kerberos ticket: get one with kinit, or name a keytab";
constexpr std::string_view kNoSuchName = "the server's keytab has no key for this name: use the name in its keytab";
constexpr auto kAdvice = std::to_array<Advice>({
    {CodeOf(KRB5_FCC_NOFILE), kNoTicket},
    {CodeOf(KRB5_CC_NOTFOUND), kNoTicket},
    {CodeOf(KRB5_CC_END), kNoTicket},
    {CodeOf(KRB5KRB_AP_ERR_TKT_EXPIRED), "the Kerberos ticket has expired: get another one with kinit"},
    {CodeOf(KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN),
     "the KDC does not know this service: use the server's full name, or let the administrator add the principal"},
    {CodeOf(KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN), "the KDC does not know this principal"},
    {CodeOf(KRB5KRB_AP_ERR_SKEW), "the clocks differ by too much: set the clocks of this host, the server and the KDC"},
    {CodeOf(KRB5KRB_AP_ERR_TKT_NYV),
     "the Kerberos ticket is not valid yet: set the clocks of this host and the server"},
    {CodeOf(KRB5_KDC_UNREACH), "no KDC answers: see whether krb5.conf names the right one, and whether it runs"},
    {CodeOf(KRB5_REALM_CANT_RESOLVE), "the name of the KDC cannot be looked up: see krb5.conf"},
    {CodeOf(KRB5_REALM_UNKNOWN), "no KDC of the realm is known: see krb5.conf"},
    {CodeOf(KRB5_CONFIG_NODEFREALM), "there is no default realm: see krb5.conf"},
    {CodeOf(KRB5_CONFIG_CANTOPEN), "the configuration of Kerberos cannot be read: see krb5.conf"},
    {CodeOf(KRB5_KT_NOTFOUND), "the keytab has no key for this principal"},
    {CodeOf(KRB5KRB_AP_ERR_BAD_INTEGRITY),
     "the server's keytab has another key than the KDC: let the administrator "
     "make a new one"},
    {CodeOf(KRB5KRB_AP_ERR_BADKEYVER),
     "the server's keytab has an older key than the KDC: let the administrator make a "
     "new one"},
    {CodeOf(KRB5KRB_AP_WRONG_PRINC), kNoSuchName},
    {CodeOf(KRB5KRB_AP_ERR_NOT_US), kNoSuchName},
    {CodeOf(KRB5KRB_AP_ERR_NOKEY), kNoSuchName},
});

std::string_view AdviceFor(uint32_t major, uint32_t minor) {
  for (const Advice& each : kAdvice) {
    if (each.code == minor) return each.text;
  }
  if (GSS_ROUTINE_ERROR(major) == GSS_S_CREDENTIALS_EXPIRED) return kAdvice[3].text;
  if (GSS_ROUTINE_ERROR(major) == GSS_S_NO_CRED && minor == 0) return kNoTicket;
  return {};
}

std::string TextOf(uint32_t major, uint32_t minor) {
  // The library's text for GSS_S_FAILURE only says that there is another text.
  const bool unspecified = GSS_ROUTINE_ERROR(major) == GSS_S_FAILURE && minor != 0;
  const std::string said = unspecified ? KerberosFailure(minor).text : KerberosFailure(major, minor).text;
  const std::string_view advice = AdviceFor(major, minor);
  return advice.empty() ? said : fmt::format("{} ({})", advice, said);
}

bool MayPass(uint32_t minor) { return minor == CodeOf(KRB5_KDC_UNREACH) || minor == CodeOf(KRB5_REALM_CANT_RESOLVE); }

// A name that no other cache of this process has.
std::string NewMemoryCache() {
  static std::atomic<uint64_t> last{0};
  return fmt::format("MEMORY:penstock-{}", last.fetch_add(1, std::memory_order_relaxed) + 1);
}

}  // namespace

class KerberosClient::Context final : public WithKerberosMessages<InitiatingContext> {
 public:
  explicit Context(const KerberosClient& owner) : owner_(owner) {}

  Result<Step> Initiate(ConstBytes token) override {
    if (!credential_) PENSTOCK_CHECK(Acquire());
    gss_buffer_desc input = Lent(token);
    ApiBuffer output;
    OM_uint32 minor;
    OM_uint32 flags = 0;
    // RFC 2203 §5.2.2: neither replays nor the sequence are detected by the mechanism.
    const OM_uint32 major = gss_init_sec_context(&minor, credential_.get(), context_.out(), acceptor_.get(),
                                                 KerberosOid(), GSS_C_MUTUAL_FLAG, 0, GSS_C_NO_CHANNEL_BINDINGS, &input,
                                                 nullptr, output.out(), &flags, &lifetime_);
    if (GSS_ERROR(major)) return Fail(major, minor);
    const bool complete = major == GSS_S_COMPLETE;
    if (complete && !(flags & GSS_C_MUTUAL_FLAG)) {
      return std::unexpected(Failure{.text = owner_.Acceptor() + " does not prove who it is"});
    }
    // The ticket has expired while the context was made.
    if (complete && lifetime_ == 0) return Fail(GSS_S_CREDENTIALS_EXPIRED, 0);
    return Step{.complete = complete, .token = {output.bytes().begin(), output.bytes().end()}};
  }

  std::optional<Duration> lifetime() const override {
    if (lifetime_ == GSS_C_INDEFINITE) return std::nullopt;
    return std::chrono::seconds(lifetime_);
  }
  std::string initiator() const override {
    OM_uint32 minor;
    ApiName name;
    ApiBuffer text;
    if (gss_inquire_context(&minor, context_.get(), name.out(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) ||
        gss_display_name(&minor, name.get(), text.out(), nullptr)) {
      return "unknown";
    }
    return text.text();
  }

 private:
  std::unexpected<Failure> Fail(OM_uint32 major, OM_uint32 minor) const {
    return std::unexpected(Failure{.major = major,
                                   .minor = minor,
                                   .text = fmt::format("{}: {}", owner_.Acceptor(), Explain(major, minor)),
                                   .may_pass = MayPass(minor)});
  }

  // The library does not tell that it cannot use a keytab: it goes on, and finds no ticket.
  std::string Explain(OM_uint32 major, OM_uint32 minor) const {
    const auto& [host, acceptor, keytab, principal] = owner_.options_;
    if (keytab.empty() || AdviceFor(major, minor) != kNoTicket) return TextOf(major, minor);
    return fmt::format("the keytab {} cannot be read, or has no key for {}", keytab,
                       principal.empty() ? "a principal" : principal);
  }

  static OM_uint32 Import(OM_uint32& minor, const std::string& text, gss_OID type, ApiName& name) {
    gss_buffer_desc octets = Lent(AsBytes(text));
    return gss_import_name(&minor, &octets, type, name.out());
  }

  Result<void> Acquire() {
    OM_uint32 minor;
    OM_uint32 major =
        Import(minor, owner_.Acceptor(),
               owner_.options_.acceptor.empty() ? GSS_C_NT_HOSTBASED_SERVICE : GSS_C_NT_USER_NAME, acceptor_);
    if (GSS_ERROR(major)) return Fail(major, minor);
    ApiName initiator;
    const std::string& principal = owner_.options_.principal;
    if (!principal.empty()) major = Import(minor, principal, GSS_C_NT_USER_NAME, initiator);
    if (GSS_ERROR(major)) return Fail(major, minor);
    const std::string keytab = "FILE:" + owner_.options_.keytab;
    std::array<gss_key_value_element_desc, 2> elements{
        {{.key = "client_keytab", .value = keytab.c_str()}, {.key = "ccache", .value = owner_.memory_.c_str()}}};
    const gss_key_value_set_desc store{.count = elements.size(), .elements = elements.data()};
    gss_OID_set_desc mechanisms{.count = 1, .elements = KerberosOid()};
    major =
        gss_acquire_cred_from(&minor, initiator.get(), GSS_C_INDEFINITE, &mechanisms, GSS_C_INITIATE,
                              owner_.options_.keytab.empty() ? nullptr : &store, credential_.out(), nullptr, nullptr);
    if (GSS_ERROR(major)) return Fail(major, minor);
    return {};
  }

  const KerberosClient& owner_;
  ApiName acceptor_;
  ApiCredential credential_;
  OM_uint32 lifetime_ = 0;
};

std::optional<std::string> DefaultKeytab() {
  krb5_context library = nullptr;
  if (krb5_init_context(&library)) return std::nullopt;
  std::array<char, 4096> name;
  const bool known = !krb5_kt_default_name(library, name.data(), name.size());
  krb5_free_context(library);
  if (!known) return std::nullopt;
  const std::string_view text = name.data();
  for (const std::string_view type : {"FILE:", "WRFILE:"}) {
    if (text.starts_with(type)) return std::string(text.substr(type.size()));
  }
  return text.starts_with('/') ? std::optional(std::string(text)) : std::nullopt;
}

KerberosClient::KerberosClient(KerberosClientOptions options)
    : options_(std::move(options)), memory_(NewMemoryCache()) {}

// The library keeps caches in memory until they are destroyed.
KerberosClient::~KerberosClient() {
  if (options_.keytab.empty()) return;
  krb5_context library = nullptr;
  if (krb5_init_context(&library)) return;
  krb5_ccache cache = nullptr;
  if (!krb5_cc_resolve(library, memory_.c_str(), &cache)) krb5_cc_destroy(library, cache);
  krb5_free_context(library);
}

std::unique_ptr<InitiatingContext> KerberosClient::Begin() { return std::make_unique<Context>(*this); }

std::string KerberosClient::Initiator() const {
  if (!options_.principal.empty()) return options_.principal;
  return options_.keytab.empty() ? "Kerberos" : "keytab " + options_.keytab;
}

std::string KerberosClient::Acceptor() const {
  return options_.acceptor.empty() ? "nfs@" + options_.host : options_.acceptor;
}

std::string KerberosClient::Explain(uint32_t major, uint32_t minor) const { return TextOf(major, minor); }

}  // namespace penstock::rpc::gss
