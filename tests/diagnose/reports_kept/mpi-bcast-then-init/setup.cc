204  // broadcast the id, then build the communicator
205  ncclUniqueId id;
206  if (rank == 0) NCCL_CHECK(ncclGetUniqueId(&id));
207  
208  MPI_CHECK(MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, mpi_comm));
209  
210  ncclComm_t comm;
211  
212  NCCL_CHECK(ncclCommInitRank(&comm, nranks, id, rank));
