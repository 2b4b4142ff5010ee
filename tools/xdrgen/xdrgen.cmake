# penstock_xdrgen(OUTPUTS nfs3.x ...): writes ${PROJECT_BINARY_DIR}/generated/protocol/<name>.h for each .x file of the
# current folder at build time, and sets OUTPUTS to the list of headers. Included as "protocol/<name>.h".
set(PENSTOCK_XDRGEN ${CMAKE_CURRENT_LIST_DIR})
set(PENSTOCK_GENERATED ${PROJECT_BINARY_DIR}/generated)

function(penstock_xdrgen outputs)
  file(GLOB tool CONFIGURE_DEPENDS ${PENSTOCK_XDRGEN}/*.py ${PENSTOCK_XDRGEN}/*.lark ${PENSTOCK_XDRGEN}/*.j2)
  file(GLOB definitions CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.x)
  set(headers)
  foreach(input ${ARGN})
    get_filename_component(name ${input} NAME_WE)
    set(header ${PENSTOCK_GENERATED}/protocol/${name}.h)
    # Every definition is a dependency, since one may import another.
    add_custom_command(OUTPUT ${header}
      COMMAND /usr/bin/python3 -B ${PENSTOCK_XDRGEN}/xdrgen.py ${CMAKE_CURRENT_SOURCE_DIR}/${input} ${header}
      DEPENDS ${definitions} ${tool}
      COMMENT "Generating protocol/${name}.h" VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  set(${outputs} ${headers} PARENT_SCOPE)
endfunction()
