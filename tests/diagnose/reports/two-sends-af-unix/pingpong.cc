    // NCCLCHECK(ncclGroupStart());
    if (rank == 0) {
        NCCLCHECK(ncclSend(d_sendbuff, n, ncclFloat, 1, comm, stream));
        NCCLCHECK(ncclRecv(d_recvbuff, n, ncclFloat, 1, comm, stream));
    } else {
        NCCLCHECK(ncclSend(d_sendbuff, n, ncclFloat, 0, comm, stream));
        NCCLCHECK(ncclRecv(d_recvbuff, n, ncclFloat, 0, comm, stream));
    }
    // NCCLCHECK(ncclGroupEnd());
