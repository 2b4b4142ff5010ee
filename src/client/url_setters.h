// The setters of the parameters of a URL: each parses one value and stores it. The table of the parameters
// (url_parameters.cc) names them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/url_parameters.h"

namespace penstock::client {

// The mistake of a value for the user, or nothing.
using Mistake = std::optional<std::string>;
using UrlSetter = Mistake (*)(UrlParts& parts, std::string_view key, std::string_view value);

Mistake SetProtocol(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetVersion(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetMinorVersion(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetSecurity(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetTransportSecurity(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetPort(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetTcpPort(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetReservedPort(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetIdentity(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetInline(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetCrc(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetConnections(UrlParts& parts, std::string_view key, std::string_view value);   // nconnect, max_connect
Mistake SetTransferSize(UrlParts& parts, std::string_view key, std::string_view value);  // rsize, wsize
Mistake SetReadOnly(UrlParts& parts, std::string_view key, std::string_view value);      // ro, rw

// MOUNT: mountport, mountproto, mounthost, mountvers.
Mistake SetMountPort(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetMountProtocol(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetMountHost(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetMountVersion(UrlParts& parts, std::string_view key, std::string_view value);

// Servers that do not answer: hard, soft, softerr; timeout, timeo, retrans, retry; bg, fg.
Mistake SetRecovery(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetTimeout(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetTimeo(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetRetrans(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetRetry(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetBackground(UrlParts& parts, std::string_view key, std::string_view value);

// Caches and locks of a file system.
Mistake SetAttributeTime(UrlParts& parts, std::string_view key, std::string_view value);  // ac...min, ac...max, actimeo
Mistake SetCaching(UrlParts& parts, std::string_view key, std::string_view value);        // ac, noac, cto, nocto
Mistake SetLookupCache(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetLock(UrlParts& parts, std::string_view key, std::string_view value);  // lock, nolock
Mistake SetLocalLock(UrlParts& parts, std::string_view key, std::string_view value);

// Sessions.
Mistake SetPersist(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetChannels(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetBack(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetPad(UrlParts& parts, std::string_view key, std::string_view value);
Mistake SetChain(UrlParts& parts, std::string_view key, std::string_view value);

// Options without an effect, and flags that only a file system has.
Mistake Ignore(UrlParts& parts, std::string_view key, std::string_view value);
Mistake IgnoreNumber(UrlParts& parts, std::string_view key, std::string_view value);
Mistake IgnoreAddress(UrlParts& parts, std::string_view key, std::string_view value);
Mistake AddFlag(UrlParts& parts, std::string_view key, std::string_view value);

}  // namespace penstock::client
