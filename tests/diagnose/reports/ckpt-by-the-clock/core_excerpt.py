    if (
        self.checkpointer is not None
        and self.ckpt_interval_minutes > 0
        and time.time() - last_ckpt_time >= self.ckpt_interval_minutes * 60.0
    ):
        run_on_main(self._save_intra_epoch_ckpt)
        last_ckpt_time = time.time()
