// The check of the header "Host" of a request to this host's loopback address.
#pragma once

#include <string_view>

namespace penstock::watch {

// Returns true if `host`, "NAME[:PORT]" of the header, names this host by an IP address, as localhost, or by
// `own_name`. A page of another site can have its own name lead to 127.0.0.1 (DNS rebinding). The browser then sends
// the page's requests here, with that name, and lets it read the replies.
bool NamesThisHost(std::string_view host, std::string_view own_name);

}  // namespace penstock::watch
