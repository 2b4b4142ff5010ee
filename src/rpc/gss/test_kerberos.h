// For tests: the client's side of Kerberos, implemented by this host's library, in a realm of
// tests/harness/kerberos.py.
#pragma once

#include <gssapi/gssapi_krb5.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "rpc/gss/gss_api.h"
#include "rpc/gss/test_initiator.h"

namespace penstock::rpc::gss::testing {

inline std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  EXPECT_TRUE(value) << name << " is not set: run this by tests/harness/kerberos.py";
  return value ? value : "";
}

class KerberosInitiator : public InitiatorMechanism {
 public:
  // Uses the tickets in `cache` for a service "name@host". `flags` are those of gss_init_sec_context().
  explicit KerberosInitiator(const std::string& cache, const std::string& service = "nfs@localhost",
                             OM_uint32 flags = GSS_C_MUTUAL_FLAG)
      : flags_(flags) {
    OM_uint32 minor;
    gss_buffer_desc name = Lent(AsBytes(service));
    EXPECT_EQ(gss_import_name(&minor, &name, GSS_C_NT_HOSTBASED_SERVICE, service_.out()), GSS_S_COMPLETE);
    gss_key_value_element_desc element{.key = "ccache", .value = cache.c_str()};
    const gss_key_value_set_desc store{.count = 1, .elements = &element};
    gss_OID_set_desc mechanisms{.count = 1, .elements = mechanism()};
    const OM_uint32 major = gss_acquire_cred_from(&minor, GSS_C_NO_NAME, GSS_C_INDEFINITE, &mechanisms, GSS_C_INITIATE,
                                                  &store, credential_.out(), nullptr, nullptr);
    EXPECT_EQ(major, GSS_S_COMPLETE) << FailureOf(major, minor, mechanism()).text;
  }

  std::optional<Octets> Step(ConstBytes token) override {
    if (complete_ && token.empty()) return Octets();
    gss_buffer_desc input = Lent(token);
    ApiBuffer output;
    OM_uint32 minor;
    const OM_uint32 major =
        gss_init_sec_context(&minor, credential_.get(), context_.out(), service_.get(), mechanism(), flags_, 0,
                             GSS_C_NO_CHANNEL_BINDINGS, &input, nullptr, output.out(), nullptr, nullptr);
    if (GSS_ERROR(major)) {
      ADD_FAILURE() << FailureOf(major, minor, mechanism()).text;
      return std::nullopt;
    }
    complete_ = major == GSS_S_COMPLETE;
    return Copied(output.bytes());
  }
  Octets GetMic(ConstBytes message) override {
    gss_buffer_desc text = Lent(message);
    ApiBuffer mic;
    OM_uint32 minor;
    EXPECT_EQ(gss_get_mic(&minor, context_.get(), GSS_C_QOP_DEFAULT, &text, mic.out()), GSS_S_COMPLETE);
    return Copied(mic.bytes());
  }
  bool VerifyMic(ConstBytes message, ConstBytes mic) override {
    gss_buffer_desc text = Lent(message);
    gss_buffer_desc token = Lent(mic);
    OM_uint32 minor;
    return gss_verify_mic(&minor, context_.get(), &text, &token, nullptr) == GSS_S_COMPLETE;
  }
  Octets Wrap(ConstBytes message) override { return Wrap(message, true); }
  Octets Wrap(ConstBytes message, bool encrypted) {
    gss_buffer_desc text = Lent(message);
    ApiBuffer token;
    OM_uint32 minor;
    EXPECT_EQ(gss_wrap(&minor, context_.get(), encrypted, GSS_C_QOP_DEFAULT, &text, nullptr, token.out()),
              GSS_S_COMPLETE);
    return Copied(token.bytes());
  }
  std::optional<Octets> Unwrap(ConstBytes message) override {
    gss_buffer_desc token = Lent(message);
    ApiBuffer text;
    OM_uint32 minor;
    int encrypted = 0;
    if (gss_unwrap(&minor, context_.get(), &token, text.out(), &encrypted, nullptr) != GSS_S_COMPLETE || !encrypted) {
      return std::nullopt;
    }
    return Copied(text.bytes());
  }

 private:
  static gss_OID mechanism() { return const_cast<gss_OID>(gss_mech_krb5); }

  const OM_uint32 flags_;
  ApiName service_;
  ApiCredential credential_;
  ApiContext context_;
  bool complete_ = false;
};

}  // namespace penstock::rpc::gss::testing
