// Names and attributes in version 3, found, made, changed and removed: what Mount says of them, one procedure each.
#pragma once

#include "client/mount.h"
#include "protocol/nfs3.h"
#include "rpc/client.h"

namespace penstock::client::v3 {

Task<Result<Node>> Lookup(rpc::Client& client, const Handle& directory, std::string_view name);
Task<Result<Attributes>> GetAttributes(rpc::Client& client, const Handle& object, std::string_view what);
Task<Result<void>> SetAttributes(rpc::Client& client, const Handle& object, std::string_view what,
                                 const NewAttributes& attributes);
Task<Result<std::string>> ReadLink(rpc::Client& client, const Handle& symlink, std::string_view what);
Task<Result<Node>> MakeDirectory(rpc::Client& client, const Handle& directory, std::string_view name, uint32_t mode);
Task<Result<Node>> MakeSymlink(rpc::Client& client, const Handle& directory, std::string_view name,
                               std::string_view target);
Task<Result<void>> Link(rpc::Client& client, const Handle& file, const Handle& directory, std::string_view name);
Task<Result<void>> Rename(rpc::Client& client, const Handle& from_directory, std::string_view from,
                          const Handle& to_directory, std::string_view to);
Task<Result<void>> Remove(rpc::Client& client, const Handle& directory, std::string_view name);
Task<Result<void>> RemoveDirectory(rpc::Client& client, const Handle& directory, std::string_view name);

// What has been made under that name: a server may leave either out (RFC 1813 §3.3.8).
Task<Result<Node>> MadeNode(rpc::Client& client, const nfs3::post_op_fh3& handle, const nfs3::post_op_attr& attributes,
                            const Handle& directory, std::string_view name);

}  // namespace penstock::client::v3
