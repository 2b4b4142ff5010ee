#include "rpc/tls/certificate.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/host.h"

namespace penstock::rpc::tls {
namespace {

// A certificate may have thousands of names.
constexpr size_t kMostNames = 64;
constexpr size_t kMostShown = 8;
constexpr size_t kLongestShown = 100;

std::string LineOf(const X509_NAME* name) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), &BIO_free);
  if (!out || X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253) < 0) return {};
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

std::string SerialOf(const X509* certificate) {
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr), &BN_free);
  if (!number) return {};
  char* digits = BN_bn2hex(number.get());
  std::string text = digits ? digits : "";
  OPENSSL_free(digits);
  return text;
}

void AddName(const GENERAL_NAME& name, Certificate& to) {
  int type = 0;
  const void* value = GENERAL_NAME_get0_value(&name, &type);
  const auto* octets = static_cast<const ASN1_STRING*>(value);
  if (type == GEN_DNS) {
    const auto* text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(octets));
    std::string host(text, static_cast<size_t>(ASN1_STRING_length(octets)));
    // A zero octet could make a name look like another one.
    if (host.find('\0') == std::string::npos) to.hosts.push_back(std::move(host));
  } else if (type == GEN_IPADD) {
    const uint8_t* data = ASN1_STRING_get0_data(octets);
    if (ASN1_STRING_length(octets) == 4) {
      asio::ip::address_v4::bytes_type bytes;
      std::memcpy(bytes.data(), data, bytes.size());
      to.addresses.emplace_back(asio::ip::address_v4(bytes));
    } else if (ASN1_STRING_length(octets) == 16) {
      asio::ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), data, bytes.size());
      to.addresses.emplace_back(asio::ip::address_v6(bytes));
    }
  }
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualNames(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return Lower(x) == Lower(y); });
}

// Returns Certificate::names_key. A letter stands in front of each name for its kind, and its length, so that two lists
// of names never have the same text.
std::string KeyOf(const Certificate& certificate) {
  std::vector<std::string> names;
  for (const std::string& host : certificate.hosts) {
    std::string name = "h" + host;
    std::ranges::transform(name, name.begin(), Lower);
    names.push_back(std::move(name));
  }
  for (const IpAddress& address : certificate.addresses) names.push_back("a" + Unmapped(address).to_string());
  if (names.empty()) names.push_back("s" + certificate.subject);
  std::ranges::sort(names);
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}:{}", name.size(), name);
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kLongestShown));
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > kLongestShown) shown += "...";
  return shown;
}

}  // namespace

Certificate Certificate::Of(const x509_st* certificate) {
  Certificate made;
  made.subject = LineOf(X509_get_subject_name(certificate));
  made.issuer = LineOf(X509_get_issuer_name(certificate));
  made.serial = SerialOf(certificate);
  auto* const names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  const int count = sk_GENERAL_NAME_num(names);
  for (int i = 0; i < count && made.hosts.size() + made.addresses.size() < kMostNames; ++i) {
    AddName(*sk_GENERAL_NAME_value(names, i), made);
  }
  GENERAL_NAMES_free(names);
  made.names_key = KeyOf(made);
  return made;
}

bool Certificate::Names(std::string_view name) const {
  asio::error_code not_an_address;
  const IpAddress address = asio::ip::make_address(std::string(name), not_an_address);
  if (!not_an_address) return Names(address);
  return name.find('*') == std::string_view::npos &&
         std::ranges::any_of(hosts, [&](const std::string& host) { return EqualNames(host, name); });
}

bool Certificate::Names(const IpAddress& address) const {
  return std::ranges::any_of(addresses, [&](const IpAddress& each) { return Unmapped(each) == Unmapped(address); });
}

std::string Certificate::NamesToString() const {
  std::string text;
  size_t shown = 0;
  const auto add = [&](std::string_view name) {
    if (++shown > kMostShown) return;
    if (!text.empty()) text += ", ";
    text += shown == kMostShown ? "..." : Shown(name);
  };
  for (const std::string& host : hosts) add(host);
  for (const IpAddress& address : addresses) add(address.to_string());
  return text.empty() ? fmt::format("no names, subject {}", Shown(subject)) : text;
}

std::string Certificate::ToString() const {
  return fmt::format("{} (issuer {}, serial number {})", NamesToString(), Shown(issuer), Shown(serial));
}

}  // namespace penstock::rpc::tls
