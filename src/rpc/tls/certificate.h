// The names in a peer's certificate, for logs, for people, and for exports that admit only certain certificates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"

struct x509_st;

namespace penstock::rpc::tls {

// A plain value; any thread may read it. The texts come from the peer, so that ToString() bounds and cleans them.
struct Certificate {
  std::string subject;  // in one line, for example "CN=client.example.org"
  std::string issuer;
  // The serial number as hexadecimal digits. Issuer and serial number identify a client (RFC 9289 §5.2.1).
  std::string serial;
  // The names of the extension subjectAltName: dNSName and iPAddress. The subject is not a name (RFC 9289 §5.2.1).
  std::vector<std::string> hosts;
  std::vector<IpAddress> addresses;
  // A digest of these names, without regard to their order; without names, of the subject. A renewed certificate with
  // the same names has the same one. Of() sets it.
  std::string names_key{};

  // Reads the fields of `certificate`, which must not be null. Ignores names that it cannot decode.
  static Certificate Of(const x509_st* certificate);

  // Returns true if the certificate has the host name or the address `name`. Letters match in both cases. A name with
  // "*" never matches (RFC 9289 §5.2.1).
  bool Names(std::string_view name) const;
  bool Names(const IpAddress& address) const;
  // Returns the names in one line, for example "host.example.org, 192.0.2.1". The subject stands in for missing names.
  std::string NamesToString() const;
  // Returns one line for logs: the names, the issuer and the serial number.
  std::string ToString() const;
};

}  // namespace penstock::rpc::tls
