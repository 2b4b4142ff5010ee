// The procedures of NFSv3 (RFC 1813 §3.3), one function each. Arguments and results are the types of protocol/nfs3.x;
// views in the arguments are valid during the call. The two procedures that read directories encode their results
// themselves, because these can be long.
#pragma once

#include "base/task.h"
#include "nfs/v3/request.h"
#include "protocol/nfs3.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v3 {

// attributes.cc
Task<nfs3::GETATTR3res> GetAttributes(Request request, const nfs3::GETATTR3args& arguments);
Task<nfs3::SETATTR3res> SetAttributes(Request request, const nfs3::SETATTR3args& arguments);
Task<nfs3::ACCESS3res> Access(Request request, const nfs3::ACCESS3args& arguments);

// lookup.cc
Task<nfs3::LOOKUP3res> Lookup(Request request, const nfs3::LOOKUP3args& arguments);
Task<nfs3::READLINK3res> ReadLink(Request request, const nfs3::READLINK3args& arguments);

// read_write.cc
Task<nfs3::READ3res> Read(Request request, const nfs3::READ3args& arguments);
Task<nfs3::WRITE3res> Write(Request request, const nfs3::WRITE3args& arguments);
Task<nfs3::COMMIT3res> Commit(Request request, const nfs3::COMMIT3args& arguments);

// create.cc
Task<nfs3::CREATE3res> Create(Request request, const nfs3::CREATE3args& arguments);
Task<nfs3::MKDIR3res> MakeDirectory(Request request, const nfs3::MKDIR3args& arguments);
Task<nfs3::SYMLINK3res> MakeSymlink(Request request, const nfs3::SYMLINK3args& arguments);
Task<nfs3::MKNOD3res> MakeNode(Request request, const nfs3::MKNOD3args& arguments);

// remove.cc
Task<nfs3::REMOVE3res> Remove(Request request, const nfs3::REMOVE3args& arguments);
Task<nfs3::RMDIR3res> RemoveDirectory(Request request, const nfs3::RMDIR3args& arguments);
Task<nfs3::RENAME3res> Rename(Request request, const nfs3::RENAME3args& arguments);
Task<nfs3::LINK3res> Link(Request request, const nfs3::LINK3args& arguments);

// directory.cc: they encode READDIR3res and READDIRPLUS3res into `results`.
Task<> ReadDirectory(Request request, const nfs3::READDIR3args& arguments, xdr::Encoder& results);
Task<> ReadDirectoryPlus(Request request, const nfs3::READDIRPLUS3args& arguments, xdr::Encoder& results);

// information.cc
Task<nfs3::FSSTAT3res> FileSystemStatus(Request request, const nfs3::FSSTAT3args& arguments);
Task<nfs3::FSINFO3res> FileSystemInformation(Request request, const nfs3::FSINFO3args& arguments);
Task<nfs3::PATHCONF3res> PathConfiguration(Request request, const nfs3::PATHCONF3args& arguments);

}  // namespace penstock::nfs::v3
