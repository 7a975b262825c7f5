/** Calls a function at most once for each frame of the screen. */

/** Plans work for the next frame. */
export class FramePlanner {
  readonly #run: (time: number) => void;
  #handle: number | undefined;

  /** `run` gets the time of the frame, in milliseconds. */
  constructor(run: (time: number) => void) {
    this.#run = run;
  }

  /** Plans one call for the next frame. Further calls before it have no effect. */
  plan(): void {
    this.#handle ??= requestAnimationFrame((time) => {
      this.#handle = undefined;
      this.#run(time);
    });
  }

  /** Drops the planned call. */
  cancel(): void {
    if (this.#handle !== undefined) cancelAnimationFrame(this.#handle);
    this.#handle = undefined;
  }
}
