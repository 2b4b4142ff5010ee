// The operations of client::Mount on names and attributes, in version 3. Each calls one procedure.
#pragma once

#include "client/mount.h"
#include "client/nfs3/call.h"
#include "protocol/nfs3.h"

namespace penstock::client::v3 {

Task<Result<Node>> Lookup(const Caller& caller, const Handle& directory, std::string_view name);
Task<Result<Attributes>> GetAttributes(const Caller& caller, const Handle& object, std::string_view what);
Task<Result<void>> SetAttributes(const Caller& caller, const Handle& object, std::string_view what,
                                 const NewAttributes& attributes);
Task<Result<std::string>> ReadLink(const Caller& caller, const Handle& symlink, std::string_view what);
Task<Result<Space>> GetSpace(const Caller& caller, const Handle& object, std::string_view what);
// See client::Mount::CreateFile(). For an exclusive creation the server keeps a verifier of this call, so that it knows
// the call again (RFC 1813 §3.3.8). A server that cannot do that (NFS3ERR_NOTSUPP) gets a GUARDED creation: then a file
// that the client has created may seem to exist already, if the server forgets the call and the reply is lost.
Task<Result<Node>> CreateFile(const Caller& caller, const Handle& directory, std::string_view name, uint32_t mode,
                              CreateMode how);
Task<Result<Node>> MakeDirectory(const Caller& caller, const Handle& directory, std::string_view name, uint32_t mode);
Task<Result<Node>> MakeSymlink(const Caller& caller, const Handle& directory, std::string_view name,
                               std::string_view target);
// `type` is a FIFO, a socket or a device.
Task<Result<Node>> MakeNode(const Caller& caller, const Handle& directory, std::string_view name, FileType type,
                            uint32_t mode, nfs3::specdata3 device);
Task<Result<void>> Link(const Caller& caller, const Handle& file, const Handle& directory, std::string_view name);
Task<Result<void>> Rename(const Caller& caller, const Handle& from_directory, std::string_view from,
                          const Handle& to_directory, std::string_view to);
Task<Result<void>> Remove(const Caller& caller, const Handle& directory, std::string_view name);
Task<Result<void>> RemoveDirectory(const Caller& caller, const Handle& directory, std::string_view name);
Task<Result<Listing>> ListFrom(const Caller& caller, const Handle& directory, std::string_view what, ListPosition from,
                               ListContent content, uint32_t most_octets);
Task<Result<client::Mount::Granted>> CheckAccess(const Caller& caller, const Handle& object, std::string_view what,
                                                 uint32_t rights);

}  // namespace penstock::client::v3
